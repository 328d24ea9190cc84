"""What a GPU bears: bytes of weights, states and KV cache, the running requests that follow, and the speed to expect.

Pure arithmetic on a model's config.json, a GPU's numbers and an engine's flags. It knows no files, no processes and no
running server: whether the server got what was planned is for its logs to say.
"""
