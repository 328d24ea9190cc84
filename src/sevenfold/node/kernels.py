"""Where engines keep the kernels they compile, and how replicas start without fighting over them.

Several servers that compile into one folder at once fail at random or wait for each other for minutes. So the first of
a cold start goes alone and leaves a marker once it has answered; a start that finds the marker goes all at once.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

FOLDERS: dict[str, dict[str, tuple[str, str]]] = {
    "sglang": {
        "flashinfer": ("FLASHINFER_WORKSPACE_BASE", "~"),
        "triton": ("TRITON_CACHE_DIR", "~/.triton/cache"),
        "inductor": ("TORCHINDUCTOR_CACHE_DIR", "/tmp"),
        "deep_gemm": ("SGLANG_DG_CACHE_DIR", "~/.cache/deep_gemm"),
    },
    "vllm": {
        "vllm": ("VLLM_CACHE_ROOT", "~/.cache/vllm"),
        "flashinfer": ("FLASHINFER_WORKSPACE_BASE", "~"),
        "triton": ("TRITON_CACHE_DIR", "~/.triton/cache"),
    },
}
"""Per engine: name, variable that moves it, where it lies otherwise."""


class StartPlan(msgspec.Struct, frozen=True):
    groups: tuple[tuple[int, ...], ...]
    """Replicas that start together; a group waits until the one before it is ready."""
    sentence: str


def start_plan(replicas: int, warm: bool) -> StartPlan:
    """Pure."""
    everyone = tuple(range(replicas))
    if warm or replicas < 2:
        why = "the kernel cache is warm" if warm else "there is one replica"
        return StartPlan((everyone,), f"all start at once: {why}")
    sentence = "one warms first, the others start when it is ready: the kernel cache is cold"
    return StartPlan((everyone[:1], everyone[1:]), sentence)


def folders(engine: str, env: Mapping[str, str]) -> dict[str, Path]:
    """Empty for engines that compile nothing."""
    home = env.get("HOME") or str(Path.home())
    known = FOLDERS.get(engine, {})
    return {name: Path(env.get(variable) or usual.replace("~", home)) for name, (variable, usual) in known.items()}


def is_warm(engine: str, version: str, env: Mapping[str, str]) -> bool:
    """Whether a replica of this very version has answered with these caches. Engines that compile nothing are warm."""
    return all(marker.is_file() for marker in markers(engine, version, env))


def mark_warm(engine: str, version: str, env: Mapping[str, str]) -> None:
    for marker in markers(engine, version, env):
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()


def markers(engine: str, version: str, env: Mapping[str, str]) -> tuple[Path, ...]:
    """One file in each cache: who empties a cache takes its marker along."""
    name = f".sevenfold-warm-{engine}-{version or 'unknown'}"
    return tuple(folder / name for folder in folders(engine, env).values())
