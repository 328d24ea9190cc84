"""SGLang's memory rules: flags in; state slots, KV tokens and running requests out, as the engine computes them.

Read in the sources of 0.5.11 (srt/server_args.py, srt/model_executor/model_runner_kv_cache_mixin.py,
pool_configurator.py) and 0.5.23 (srt/mem_cache/kv_cache_configurator.py, srt/arg_groups); versions between follow the
nearer of the two. The 0.5.11 rules were compared with six logs of a real server. Not covered: data-parallel attention,
pipeline stages, host tiers, latent attention. A separate draft model's weights are unknown here and not counted.
"""

import re
from collections.abc import Mapping

import msgspec

from sevenfold.capacity.gpu import GIB, GPU, MIB
from sevenfold.capacity.model import ModelShape
from sevenfold.capacity.pools import Flags, FlagValue, Limit, Pools
from sevenfold.capacity.roofline import Precision
from sevenfold.errors import ConfigError

RENAMED = (0, 5, 20)
"""--mamba-scheduler-strategy is gone from here on (0.5.14 to 0.5.19 know both names), and the newer rules begin."""

MEASURED = (0, 5, 11)

BASE_SLOTS = 3
"""State slots per request with a prefix cache: the running state, the one being saved, and a cached one."""

SPECULATIVE_RUNNING = 48
"""What any speculation sets --max-running-requests to where it is not given."""

ONLINE_FP8 = 1.07
"""Quantizing a 16-bit checkpoint while loading leaves holes between the blocks: 30.23 GiB measured, 28.28 computed."""

MULTIMODAL_CACHE = 100 * MIB
"""0.5.23 sets SGLANG_VLM_CACHE_SIZE_MB aside for models with a vision tower."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The flags that decide memory, defaults filled in as the engine does."""

    newer: bool
    fraction: float
    radix: bool
    overlap: bool
    strategy: str
    slots: int | None
    ratio: float
    running: int | None
    running_given: bool
    verified: int
    drafts: bool
    """Whether the draft is the checkpoint's own prediction layer."""
    context: int
    page: int
    most_tokens: int | None
    graph: int
    vision: bool
    tp: int
    precision: Precision

    @property
    def slots_per_request(self) -> int:
        """1 without prefix cache; else 3 (no_buffer), 5 (extra_buffer: two snapshots in flight with overlap), or
        4 (extra_buffer_lazy, or without overlap). Source: `_calculate_mamba_ratio`."""
        if not self.radix:
            return 1
        if self.strategy == "no_buffer":
            return BASE_SLOTS
        return BASE_SLOTS + (2 if self.overlap and self.strategy == "extra_buffer" else 1)


class _Budget(msgspec.Struct, frozen=True):
    """Bytes per GPU."""

    rest: float
    """For states and KV cache, weights taken off."""
    slot: int
    cell: int
    """KV of one token."""


def pools(shape: ModelShape, gpu: GPU, flags: Mapping[str, FlagValue], version: str, live: float) -> Pools:
    """What a replica on `gpu` gets. `live`: mean tokens of a running request. ConfigError where it would not start."""
    setting = settings(shape, gpu, Flags(flags), version)
    weights = _weights(shape, setting)
    budget = _budget(shape, gpu, setting, weights)
    slots, rest = _slots(budget, setting) if shape.linear else (0, budget.rest)
    tokens = int(rest // budget.cell) if rest > 0 else 0
    tokens = min(tokens, setting.most_tokens or tokens) // setting.page * setting.page
    if tokens <= 0:
        raise ConfigError(
            f"{gpu.name}: {budget.rest / GIB:.1f} GiB are left after {weights / GIB:.1f} GiB of weights, states take "
            f"{(budget.rest - rest) / GIB:.1f} GiB, and nothing remains for the KV cache",
            "raise --mem-fraction-static, lower --max-mamba-cache-size, or set --quantization fp8",
        )
    limits = _limits(setting, slots, tokens, budget, live)
    running = min(limit.running for limit in limits)
    if running < 1:
        raise ConfigError(f"{slots} state slots at {setting.slots_per_request} per request let no request run")
    return Pools(
        weights_bytes=weights + (shape.draft_bytes(setting.precision.weights) if setting.drafts else 0),
        kv_tokens=tokens,
        kv_bytes=tokens * shape.kv_bytes_per_token(setting.precision.kv) // _kv_share(shape, setting.tp),
        state_slots=slots,
        # One slot more is allocated than handed out: the padding of the CUDA graphs points there.
        state_bytes=(slots + 1) * budget.slot if slots else 0,
        verify_bytes=setting.verified * (running + 1) * budget.slot if shape.linear else 0,
        limits=limits,
        precision=setting.precision,
        verified=setting.verified,
        gpus=setting.tp,
        notes=tuple(_notes(shape, setting, Flags(flags), budget, (running, tokens, int(tokens / live)))),
    )


def is_measured(version: str) -> bool:
    return parse_version(version) == MEASURED


def parse_version(version: str) -> tuple[int, ...]:
    numbers = re.match(r"v?(\d+)\.(\d+)\.(\d+)", version)
    if numbers is None:
        raise ConfigError(f"engine_version {version!r} is not like 0.5.11")
    return tuple(int(number) for number in numbers.groups())


def settings(shape: ModelShape, gpu: GPU, flags: Flags, version: str) -> Settings:
    """ConfigError on a combination that the engine itself refuses."""
    newer = parse_version(version) >= RENAMED
    verified, drafts = _speculation(shape, flags)
    radix = not flags.switch("disable-radix-cache")
    overlap = not flags.switch("disable-overlap-schedule") and flags.text("speculative-algorithm").upper() != "NGRAM"
    strategy = _strategy(flags, version, overlap)
    if shape.linear is not None:
        _refuse_clash(strategy, radix, verified, newer)
    running = flags.count("max-running-requests")
    vision = shape.vision > 0 and not flags.switch("language-model-only")
    return Settings(
        newer=newer,
        fraction=flags.number("mem-fraction-static") or _default_fraction(shape, gpu, flags, vision),
        radix=radix,
        overlap=overlap,
        strategy=strategy,
        slots=flags.count("max-mamba-cache-size"),
        ratio=flags.number("mamba-full-memory-ratio") or 0.9,
        running=running or (SPECULATIVE_RUNNING if verified else None),
        running_given=bool(running),
        verified=verified,
        drafts=drafts,
        context=flags.count("context-length") or shape.context or 8192,
        page=flags.count("page-size") or 1,
        most_tokens=flags.count("max-total-tokens"),
        graph=_graph_size(gpu, flags),
        vision=vision,
        tp=flags.count("tp-size") or flags.count("tensor-parallel-size") or flags.count("tp") or 1,
        precision=Precision(
            flags.text("quantization"), flags.text("kv-cache-dtype", "auto"), flags.text("mamba-ssm-dtype")
        ),
    )


def _speculation(shape: ModelShape, flags: Flags) -> tuple[int, bool]:
    """Tokens verified per step, and whether the model's own prediction layer drafts them.

    Source: server_args.py `_handle_speculative_decoding`: nothing given means 3 steps, top 1, 4 tokens; with top 1 the
    number of tokens is always steps + 1."""
    algorithm = flags.text("speculative-algorithm").upper()
    if not algorithm or algorithm == "NONE":
        return 0, False
    given = flags.count("speculative-num-draft-tokens")
    if algorithm == "NGRAM":
        return given or 12, False
    own = algorithm in ("EAGLE", "NEXTN") and not flags.has("speculative-draft-model-path")
    if own and not shape.draft_layers:
        raise ConfigError(
            f"--speculative-algorithm {algorithm}: the model has no prediction layer of its own",
            "name a draft model with --speculative-draft-model-path, or leave speculation out",
        )
    steps = flags.count("speculative-num-steps")
    top_1 = (flags.count("speculative-eagle-topk") or 1) == 1
    return (steps + 1 if steps and top_1 else given or 4), own


def _strategy(flags: Flags, version: str, overlap: bool) -> str:
    old, new = "mamba-scheduler-strategy", "mamba-radix-cache-strategy"
    number = parse_version(version)
    if number >= RENAMED and flags.has(old):
        raise ConfigError(f"SGLang {version} does not know --{old}: it exits with code 2", f"--{new} is its new name")
    if number < (0, 5, 14) and flags.has(new):
        raise ConfigError(f"SGLang {version} does not know --{new}", f"it is called --{old} here")
    strategy = flags.text(new) or flags.text(old, "auto")
    if strategy == "auto":
        # 0.5.11 always resolves to no_buffer; the newer one wants overlap where it can.
        return "extra_buffer" if number >= RENAMED and overlap else "no_buffer"
    if strategy not in ("no_buffer", "extra_buffer", "extra_buffer_lazy"):
        raise ConfigError(f"unknown state cache strategy {strategy!r}", "no_buffer, extra_buffer or extra_buffer_lazy")
    return strategy


def _refuse_clash(strategy: str, radix: bool, verified: int, newer: bool) -> None:
    if strategy != "no_buffer" and not radix and not newer:
        raise ConfigError(
            f"{strategy} together with --disable-radix-cache: the engine refuses to start",
            "leave the strategy out: without a prefix cache a request takes 1 state slot",
        )
    if strategy == "no_buffer" and radix and verified:
        raise ConfigError(
            "speculation with a prefix cache needs --mamba-scheduler-strategy extra_buffer (5 state slots per request)",
            "--disable-radix-cache: prompts without shared prefixes gain nothing from it, and 1 slot is enough",
        )


def _graph_size(gpu: GPU, flags: Flags) -> int:
    """Largest decode batch that runs as a CUDA graph. Source: server_args.py `_handle_gpu_memory_settings`."""
    given = flags.count("cuda-graph-max-bs") or flags.count("cuda-graph-max-bs-decode")
    sizes = ((20, 8), (35, 24), (60, 32), (160, 256))
    return given or next((size for limit, size in sizes if gpu.total_bytes < limit * GIB), 512)


def _default_fraction(shape: ModelShape, gpu: GPU, flags: Flags, vision: bool) -> float:
    """--mem-fraction-static where it is not given. Source: 0.5.11 `_handle_gpu_memory_settings`, in MiB."""
    total = gpu.total_bytes / MIB
    chunks = ((35, 2048), (60, 4096), (160, 8192))
    chunk = next((size for limit, size in chunks if gpu.total_bytes < limit * GIB), 16384)
    chunk = flags.count("chunked-prefill-size") or chunk
    reserved = 512 + 1.5 * max(chunk, 2048) + 2 * _graph_size(gpu, flags) + 128
    if total > 60 * 1024:
        reserved = max(reserved, 10 * 1024)
    algorithm = flags.text("speculative-algorithm").upper()
    reserved += {"": 0, "NONE": 0, "NGRAM": 0, "STANDALONE": 6 * 1024}.get(algorithm, 4 * 1024)
    fraction = round((total - reserved) / total, 3)
    if vision:
        # `adjust_mem_fraction_for_vlm` reads the layer count under a name that Qwen does not use: its default counts.
        size = (shape.vision_hidden / 1024) ** 2
        fraction *= 0.95 * max(0.8, min(1.05, 1 - 0.1 * (size - 1)))
    return fraction


def _weights(shape: ModelShape, setting: Settings) -> int:
    quantization = setting.precision.weights
    online = quantization and shape.quantization == "none" and shape.matrix_bytes(quantization) < 2
    weights = shape.weight_bytes(quantization, setting.vision or not setting.newer)
    return round(weights * ONLINE_FP8) if online else weights


def _kv_share(shape: ModelShape, tp: int) -> int:
    """GPUs that share the KV heads: a head is never split, so surplus GPUs hold copies."""
    return min(tp, shape.attention.kv_heads)


def _budget(shape: ModelShape, gpu: GPU, setting: Settings, weights: int) -> _Budget:
    """free after weights - free before x (1 - fraction): `_profile_available_bytes` of both versions.

    0.5.11 counts neither the draft layers' weights nor their KV against it; 0.5.23 counts both."""
    rest = gpu.free_bytes * setting.fraction - weights / setting.tp
    cell = shape.kv_bytes_per_token(setting.precision.kv)
    if setting.newer:
        rest -= MULTIMODAL_CACHE if setting.vision else 0
        if setting.drafts:
            rest -= shape.draft_bytes(setting.precision.weights) / setting.tp
            cell += shape.draft_kv_bytes_per_token(setting.precision.kv)
    slot = shape.state_bytes(setting.precision.state) // setting.tp
    return _Budget(rest, slot, cell // _kv_share(shape, setting.tp))


def _slots(budget: _Budget, setting: Settings) -> tuple[int, float]:
    """State slots, and the bytes left for the KV cache. Source: `handle_max_mamba_cache`.

    0.5.11 takes off the intermediate states of speculation for as many requests as the flag says, however few can run;
    0.5.23 for those that can, and one slot of padding each."""
    rest, slot = budget.rest, budget.slot
    flagged = setting.running or 0
    if not setting.newer:
        rest -= setting.verified * flagged * slot
    pad = 1 if setting.newer else 0
    if setting.slots is not None:
        slots = setting.slots
    elif not setting.radix and setting.running is not None:
        slots = setting.running
    else:
        share = rest * setting.ratio / (1 + setting.ratio)
        factor, fixed = 1.0, pad
        if setting.newer and setting.verified:
            factor, fixed = 1 + setting.verified / setting.slots_per_request, 1 + setting.verified
        slots = max(0, int((share - fixed * slot) // (slot * factor)))
    if setting.newer and setting.verified:
        rest -= setting.verified * (min(flagged, slots // setting.slots_per_request) + 1) * slot
    return slots, rest - (slots + pad) * slot


def _limits(setting: Settings, slots: int, tokens: int, budget: _Budget, live: float) -> tuple[Limit, ...]:
    """Upper bounds of the running requests. Source: `_resolve_max_num_reqs`."""
    bearable = int(budget.rest // ((1 + setting.verified) * budget.slot + live * budget.cell))
    found: list[Limit] = []
    if setting.running is not None and setting.running_given:
        lift = f"memory bears about {bearable} requests of {live:,.0f} live tokens: raise it if that is more"
        found.append(Limit(setting.running, f"--max-running-requests {setting.running} binds", lift))
    elif setting.running is not None:
        why = f"speculation sets --max-running-requests to {setting.running} where it is not given"
        found.append(Limit(setting.running, why, f"give it: memory bears about {bearable} without prefix cache"))
    estimate = max(min(int(tokens / setting.context * 512), 4096), 2048)
    if setting.running is None:
        estimate = min(estimate, tokens // 2)
    elif setting.newer:
        estimate = tokens // 2
    found.append(Limit(estimate, f"SGLang's own ceiling of {estimate} binds", "no flag lifts it: add replicas"))
    if slots:
        each = setting.slots_per_request
        how = f"{each} per request ({setting.strategy} prefix cache)" if setting.radix else "1 per request"
        lift = "raise --max-mamba-cache-size or --max-running-requests, or halve the state: --mamba-ssm-dtype bfloat16"
        if setting.radix:
            instead = "" if setting.strategy == "no_buffer" else " in place of the strategy"
            lift = f"--disable-radix-cache{instead} takes 1 per request and memory then bears about {bearable}"
        found.append(Limit(slots // each, f"{slots} state slots at {how} let {slots // each} requests run", lift))
    return tuple(found)


def _notes(shape: ModelShape, setting: Settings, flags: Flags, budget: _Budget, got: tuple[int, int, int]) -> list[str]:
    """Sentences about what the flags waste or ignore. `got`: running requests, KV tokens, requests that these hold."""
    running, tokens, held = got
    notes: list[str] = []
    if shape.linear is not None and setting.slots is not None and flags.has("mamba-full-memory-ratio"):
        notes.append("--mamba-full-memory-ratio is ignored: --max-mamba-cache-size is given")
    flagged = setting.running or 0
    if shape.linear is not None and setting.verified and not setting.newer and flagged > running:
        reserved, idle = (setting.verified * n * budget.slot / GIB for n in (flagged, flagged - running))
        notes.append(
            f"{reserved:.1f} GiB are set aside for the speculation of {flagged} requests and {running} can run: "
            f"{idle:.1f} GiB lie idle; --max-running-requests {running} gives them to the KV cache"
        )
    if running * setting.context * 2 < tokens:
        notes.append(
            f"{running} requests of at most {setting.context:,} tokens can touch {running * setting.context:,} of "
            f"{tokens:,} KV tokens: the rest lies idle"
        )
    if min(running, held) > setting.graph:
        flag = "--cuda-graph-max-bs-decode" if setting.newer else "--cuda-graph-max-bs"
        notes.append(f"batches over {setting.graph} run without CUDA graphs: {flag} {min(running, held)}")
    if setting.drafts and not setting.newer:
        outside = shape.draft_bytes(setting.precision.weights) + tokens * shape.draft_kv_bytes_per_token()
        notes.append(
            f"{outside / GIB:.1f} GiB of draft weights and draft KV come out of what --mem-fraction-static leaves"
        )
    if setting.tp > 1:
        notes.append(f"{setting.tp} GPUs per replica: what they tell each other is not in the estimate of the speed")
    return notes
