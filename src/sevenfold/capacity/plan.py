"""What a replica's flags really give and what limits it; how fast a fleet is, for how long, at what cost.

It starts nothing and asks nothing: after a launch, compare it with what the server says it got.
"""

from collections.abc import Mapping

import msgspec

from sevenfold.capacity import sglang, vllm
from sevenfold.capacity.gpu import GIB, GPU
from sevenfold.capacity.model import ModelShape
from sevenfold.capacity.pools import FlagValue, Limit, Pools
from sevenfold.capacity.roofline import Lengths, Rates, rates
from sevenfold.errors import ConfigError


class ReplicaPlan(msgspec.Struct, frozen=True, kw_only=True):
    max_running_requests: int
    """What the server will say. Fewer run at once where the KV cache is the limit: see `sustained`."""
    kv_tokens: int
    state_slots: int
    """0 for models without recurrent states."""
    weights_bytes: int
    """Of the whole replica, draft layers included where they are used."""
    binding_limit: str
    """The one limit on running requests and the flag that lifts it, in one sentence."""
    sustained: int
    """Requests that run at once, on average, with the lengths given."""
    kv_bytes: int
    state_bytes: int
    gpus: int
    tokens_per_second: Rates
    estimated: bool
    """True where this GPU, engine or version was never compared with a real server."""
    sentences: tuple[str, ...]


class FleetForecast(msgspec.Struct, frozen=True, kw_only=True):
    tokens_per_second: float
    """Output tokens, end to end, of all replicas."""
    hours: float
    cost: float | None
    """In the currency of the price; None where no price was given."""


def plan_replica(
    shape: ModelShape,
    gpu: GPU,
    flags: Mapping[str, FlagValue],
    engine_version: str,
    lengths: Lengths,
    *,
    engine: str = "sglang",
) -> ReplicaPlan:
    """ConfigError where the engine would refuse the flags or run out of memory."""
    if engine == "sglang":
        pools = sglang.pools(shape, gpu, flags, engine_version, lengths.live)
        estimated = not (gpu.measured and sglang.is_measured(engine_version))
    elif engine == "vllm":
        pools, estimated = vllm.pools(shape, gpu, flags, lengths.live), True
    else:
        raise ConfigError(f"no memory rules for engine {engine!r}", "plans are made for sglang and vllm")
    running = pools.binding.running
    sustained = min(running, max(1, int(pools.kv_tokens / lengths.live)))
    speed = rates(shape, (gpu, pools.gpus), pools.precision, (sustained, pools.verified), lengths)
    binding = pools.binding if sustained == running else _kv_limit(sustained, pools, lengths)
    return ReplicaPlan(
        max_running_requests=running,
        kv_tokens=pools.kv_tokens,
        state_slots=pools.state_slots,
        weights_bytes=pools.weights_bytes,
        binding_limit=binding.sentence,
        sustained=sustained,
        kv_bytes=pools.kv_bytes,
        state_bytes=pools.state_bytes,
        gpus=pools.gpus,
        tokens_per_second=speed,
        estimated=estimated,
        sentences=tuple(_sentences(pools, gpu, estimated, lengths)),
    )


def plan_fleet(
    replica: ReplicaPlan, replicas: int, rows: int, lengths: Lengths, gpu_hour: float | None = None
) -> FleetForecast:
    """Of `rows` completions on `replicas` replicas. `gpu_hour`: price of one GPU for one hour.

    Start-up and the last rows' tail are left out: minutes, while every replica holds rows enough."""
    if replicas < 1 or rows < 0:
        raise ConfigError(f"{replicas} replicas, {rows} rows: nothing to plan")
    speed = replica.tokens_per_second.end_to_end * replicas
    hours = rows * lengths.output / speed / 3600
    cost = None if gpu_hour is None else hours * replicas * replica.gpus * gpu_hour
    return FleetForecast(tokens_per_second=speed, hours=hours, cost=cost)


def _kv_limit(sustained: int, pools: Pools, lengths: Lengths) -> Limit:
    why = f"{pools.kv_tokens:,} KV tokens hold {sustained} requests of {lengths.live:,.0f} live tokens"
    lift = "--kv-cache-dtype fp8_e5m2 halves a token, --quantization fp8 frees half the weights"
    return Limit(sustained, why, lift)


def _sentences(pools: Pools, gpu: GPU, estimated: bool, lengths: Lengths) -> list[str]:
    parts = [f"weights {pools.weights_bytes / GIB:.1f} GiB"]
    if pools.state_slots:
        parts.append(f"{pools.state_slots} state slots {pools.state_bytes / GIB:.1f} GiB")
    if pools.verify_bytes:
        parts.append(f"states of drafts {pools.verify_bytes / GIB:.1f} GiB")
    parts.append(f"{pools.kv_tokens:,} KV tokens {pools.kv_bytes / GIB:.1f} GiB")
    said = [f"of {gpu.free_bytes / GIB:.1f} GiB free on {gpu.name}: " + ", ".join(parts)]
    if pools.verified:
        said.append(f"speculation is taken to yield {lengths.accepted:g} tokens a step: measure it, then plan again")
    said.extend(pools.notes)
    if estimated:
        said.append(f"estimated: {gpu.name} with this engine version was never measured")
    return said
