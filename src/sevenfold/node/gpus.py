"""Which GPUs we may use. A preset CUDA_VISIBLE_DEVICES is the user's word and its entries are passed on unchanged."""

import os
from collections.abc import Callable, Mapping, Sequence

from sevenfold.errors import ConfigError, NodeError
from sevenfold.node.devices import driver

VARIABLE = "CUDA_VISIBLE_DEVICES"
PATIENCE = 30.0
"""Seconds for the driver: without persistence mode that of eight GPUs wakes up for that long."""


def visible_gpus(env: Mapping[str, str] = os.environ, needed: bool = False) -> tuple[str, ...]:
    """Entries for CUDA_VISIBLE_DEVICES, one per GPU; empty where there is none, a ConfigError where one is `needed`.
    ConfigError on a preset list that names a GPU twice."""
    found = chosen(env.get(VARIABLE), physical)
    if needed and not found:
        preset = env.get(VARIABLE)
        why = f"{VARIABLE}={preset}" if preset is not None else "the driver shows none"
        remedy = f"unset {VARIABLE}, or name GPUs in it" if preset is not None else "nvidia-smi -L; sevenfold doctor"
        raise ConfigError(f"no GPU visible: {why}", remedy)
    return found


def chosen(preset: str | None, all_of_them: Callable[[], Sequence[str]]) -> tuple[str, ...]:
    """What a preset list names, unchanged; without a list, all."""
    if preset is None:
        return tuple(all_of_them())
    gpus = tuple(entry for entry in (part.strip() for part in preset.split(",")) if entry)
    twice = sorted({entry for entry in gpus if gpus.count(entry) > 1})
    if twice:
        raise ConfigError(f"{VARIABLE}={preset} names a GPU twice: {', '.join(twice)}", "name each GPU once")
    return () if gpus[:1] in (("-1",), ("NoDevFiles",)) else gpus


def physical() -> tuple[str, ...]:
    """NodeError where the driver hangs."""
    found = driver(PATIENCE)
    if found and found.hangs:
        sentence = f"the GPU driver does not answer in {PATIENCE:.0f} s: a process is stuck in it"
        raise NodeError(sentence, f"see dmesg; reboot, or name GPUs in {VARIABLE}")
    return tuple(str(device.index) for device in found.devices) if found else ()
