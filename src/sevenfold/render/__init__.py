"""Messages to prompt text to token ids, with the model's own template and tokenizer. Reads a model folder only."""

from sevenfold.render.template import Template
from sevenfold.render.tokens import Renderer, load

__all__ = ["Renderer", "Template", "load"]
