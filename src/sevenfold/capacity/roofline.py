"""Tokens per second from bytes moved and operations done, times one measured share of what the data sheet promises.

Kernels of one step run one after another, so their times add up; each takes the longer of its memory and its arithmetic
time. Left out: attention's own arithmetic (small up to some thousand tokens), communication between GPUs, preemption.
"""

import math

import msgspec

from sevenfold.capacity.gpu import GPU
from sevenfold.capacity.model import ModelShape, quantization_name

EFFICIENCY = 0.56
"""Share of the data sheet's bound that SGLang 0.5.11 reached on one H200 with Qwen3.6-27B's shape, prefill and decode
alike: of five measured profiles (512 tokens in, 512 out: tests/capacity/measured.json) all decode and end-to-end rates
lie within 20 % of it, prefill within 25 %. Other GPUs and engines: assumed the same until measured."""


class Lengths(msgspec.Struct, frozen=True):
    """Tokens of the prompts and completions to come."""

    prompt: float
    """Mean."""
    output: float
    """Mean, thinking included."""
    spread: float = 0.0
    """Log deviation of a log-normal output length; 0: all alike. Thinking models: about 0.8."""
    accepted: float = 2.6
    """Tokens per verify step where there is speculation: no config tells, only a run. 2.6 is a usual value for the
    built-in layer of Qwen3.5 and 3 drafts."""

    @property
    def live(self) -> float:
        """Mean tokens held by a running request seen at a random moment: prompt + E[L^2] / 2 E[L].

        Long answers run longer, so they are seen more often."""
        return self.prompt + self.output * math.exp(self.spread * self.spread) / 2


class Precision(msgspec.Struct, frozen=True):
    """How the numbers are stored, by the engine flags' own values; "" as the checkpoint says."""

    weights: str = ""
    kv: str = "auto"
    state: str = ""


class Rates(msgspec.Struct, frozen=True):
    """Tokens per second of one replica."""

    prefill: float
    """Prompt tokens, while it does nothing else."""
    decode: float
    """Output tokens, while it does nothing else."""
    end_to_end: float
    """Output tokens, prefill of their prompts included."""


def rates(
    shape: ModelShape, gpus: tuple[GPU, int], precision: Precision, load: tuple[float, int], lengths: Lengths
) -> Rates:
    """What `gpus` (kind, how many share one replica) give with `load`: requests running, tokens verified per step
    (0: no speculation)."""
    running, verified = load
    prefill = 1 / prefill_seconds(shape, gpus, precision)
    step = step_seconds(shape, gpus, precision, load, lengths.live)
    accepted = min(lengths.accepted, verified) if verified else 1.0
    decode = running * accepted / step
    end_to_end = lengths.output / (lengths.prompt / prefill + lengths.output / decode)
    return Rates(prefill, decode, end_to_end)


def prefill_seconds(shape: ModelShape, gpus: tuple[GPU, int], precision: Precision) -> float:
    """Per prompt token, in full batches: 2 operations per active weight; logits only for a prompt's last token."""
    gpu, count = gpus
    operations = gpu.operations(_stored(shape, precision)) * count
    return 2 * shape.active_matrices / operations / EFFICIENCY


def step_seconds(
    shape: ModelShape, gpus: tuple[GPU, int], precision: Precision, load: tuple[float, int], live: float
) -> float:
    """One decode step of `running` requests holding `live` tokens each.

    Every weight is read once a step (of the experts: those that some token chose), every state is read and written
    (with speculation: read, and written once per token verified), every key and value is read."""
    gpu, count = gpus
    running, verified = load
    tokens = running * max(verified, 1)
    bandwidth = gpu.bandwidth * count
    matrix_bytes = shape.matrix_bytes(precision.weights) * _matrices_read(shape, tokens)
    operations = gpu.operations(_stored(shape, precision)) * count
    layers = max(matrix_bytes / bandwidth, 2 * shape.active_matrices * tokens / operations)
    logits = max(2 * shape.projection / bandwidth, 2 * shape.projection * tokens / (gpu.bf16 * count))
    drafts = max(verified - 1, 0) * (shape.draft_bytes(precision.weights) + 2 * shape.projection) / bandwidth
    passes = 1 + verified if verified else 2
    states = running * passes * shape.state_bytes(precision.state) / bandwidth
    cache = running * live * shape.kv_bytes_per_token(precision.kv) / bandwidth
    return (layers + logits + drafts + states + cache) / EFFICIENCY


def _stored(shape: ModelShape, precision: Precision) -> str:
    return quantization_name(precision.weights) if precision.weights else shape.quantization


def _matrices_read(shape: ModelShape, tokens: float) -> float:
    """Weights of the layers that a step over `tokens` tokens reads: each chooses its experts alike and at random."""
    experts = shape.experts
    if experts is None:
        return shape.matrices
    missed = (1 - experts.per_token / experts.routed) ** tokens
    return shape.matrices - experts.matrices * missed
