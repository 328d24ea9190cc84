"""sevenfold: a file of prompts and a machine of GPUs in, training data out."""

__version__ = "0.1.0"
