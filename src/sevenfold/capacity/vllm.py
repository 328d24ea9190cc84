"""vLLM's memory, roughly: weights, one pool of blocks for KV cache and states, a number of sequences.

Its profile run decides what activations take; here that is a constant. Not covered: offloading, pipeline stages, latent
attention.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from sevenfold.capacity.gpu import GIB, GPU
from sevenfold.capacity.model import ModelShape
from sevenfold.capacity.pools import Flags, FlagValue, Limit, Pools
from sevenfold.capacity.roofline import Precision
from sevenfold.errors import ConfigError

UTILIZATION = 0.9
"""Default of --gpu-memory-utilization: a share of the GPU's whole memory, unlike SGLang's share of the free."""

ACTIVATIONS = 3 * GIB
"""What a profile run and CUDA graphs take beside the weights: a usual value, not measured here."""

BLOCK = 16
"""Tokens per KV block."""


def pools(shape: ModelShape, gpu: GPU, flags: Mapping[str, FlagValue], live: float) -> Pools:
    """What a replica on `gpu` gets. `live`: mean tokens of a running request. ConfigError where it would not start."""
    flag = Flags(flags)
    drafted = _drafted(flag)
    tp = flag.count("tensor-parallel-size") or 1
    precision = Precision(flag.text("quantization"), flag.text("kv-cache-dtype", "auto"), _state(flag))
    weights = shape.weight_bytes(precision.weights, not flag.switch("language-model-only"))
    weights += shape.draft_bytes(precision.weights) if drafted else 0
    share = flag.number("gpu-memory-utilization") or UTILIZATION
    rest = gpu.total_bytes * share - weights / tp - ACTIVATIONS
    cell = shape.kv_bytes_per_token(precision.kv) + (shape.draft_kv_bytes_per_token(precision.kv) if drafted else 0)
    cell //= min(tp, shape.attention.kv_heads)
    # Each drafted token keeps a state of its own until it is verified.
    state = (1 + drafted) * shape.state_bytes(precision.state) // tp
    if rest < state + cell * BLOCK:
        raise ConfigError(
            f"{gpu.name}: no memory for the cache blocks after {weights / tp / GIB:.1f} GiB of weights",
            "raise --gpu-memory-utilization or set --quantization fp8",
        )
    # Data-center GPUs (70 GiB and more) get 1024 sequences where nothing is said, others 256.
    given = flag.count("max-num-seqs")
    sequences = given or (1024 if gpu.total_bytes >= 70 * GIB else 256)
    limits = [Limit(sequences, f"--max-num-seqs {sequences} binds", "raise it")]
    if state:
        fit = int(rest // (state + live * cell))
        why = f"states of {state / 1e6:.0f} MB and {live:,.0f} live tokens let {fit} sequences run"
        limits.append(Limit(max(fit, 1), why, "raise --gpu-memory-utilization or set --mamba-ssm-cache-dtype bfloat16"))
    running = min(limit.running for limit in limits)
    tokens = int((rest - running * state) // cell) // BLOCK * BLOCK
    return Pools(
        weights_bytes=weights,
        kv_tokens=tokens,
        kv_bytes=tokens * cell,
        state_slots=running * (1 + drafted) if state else 0,
        state_bytes=running * state,
        limits=tuple(limits),
        precision=precision,
        verified=drafted + 1 if drafted else 0,
        gpus=tp,
        notes=("vLLM's pools are estimated: its own profile run decides",),
    )


def _state(flag: Flags) -> str:
    name = flag.text("mamba-ssm-cache-dtype")
    return "" if name == "auto" else name


def _drafted(flag: Flags) -> int:
    """`num_speculative_tokens` of --speculative-config, which is JSON."""
    text = flag.text("speculative-config")
    if not text:
        return 0
    try:
        return int(msgspec.json.decode(text, type=dict[str, Any]).get("num_speculative_tokens", 1))
    except (msgspec.DecodeError, TypeError, ValueError):
        raise ConfigError(f"--speculative-config {text}: not a JSON object with num_speculative_tokens") from None
