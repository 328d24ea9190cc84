"""The engines by name. An engine's own packages are never imported here: each runs in a process of its own."""

from sevenfold.engines.base import Engine
from sevenfold.engines.fake import Fake
from sevenfold.engines.llamacpp import LlamaCpp
from sevenfold.engines.openai import OpenAI
from sevenfold.engines.sglang import SGLang
from sevenfold.engines.vllm import VLLM

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (LlamaCpp(), SGLang(), VLLM(), OpenAI(), Fake())}
