"""Which GPUs we may use. A preset CUDA_VISIBLE_DEVICES is the user's word and its entries are passed on unchanged."""

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from sevenfold.errors import ConfigError
from sevenfold.node.process import output

VARIABLE = "CUDA_VISIBLE_DEVICES"
NVIDIA_SMI = ("nvidia-smi", "-L")
PATIENCE = 30.0
"""Seconds for nvidia-smi: without persistence mode the driver of eight GPUs wakes up for that long."""


def visible_gpus(env: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Entries for CUDA_VISIBLE_DEVICES, one per GPU; empty where there is none. ConfigError on a preset list that
    names a GPU twice."""
    preset = env.get(VARIABLE)
    if preset is None:
        found = _nvml()
        return listed(output(NVIDIA_SMI, PATIENCE)) if found is None else found
    gpus = tuple(entry for entry in (part.strip() for part in preset.split(",")) if entry)
    if len(set(gpus)) < len(gpus):
        raise ConfigError(f"{VARIABLE}={preset} names a GPU twice", "name each GPU once")
    return () if gpus[:1] in (("-1",), ("NoDevFiles",)) else gpus


def listed(text: str) -> tuple[str, ...]:
    """The GPUs of what `nvidia-smi -L` prints: 'GPU 0: NVIDIA H200 (UUID: GPU-...)'."""
    lines = [line for line in text.splitlines() if line.startswith("GPU ")]
    return tuple(line.split()[1].rstrip(":") for line in lines)


def _nvml() -> tuple[str, ...] | None:
    """None where NVML cannot be asked."""
    try:
        nvml: Any = import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
        try:
            return tuple(str(i) for i in range(nvml.nvmlDeviceGetCount()))
        finally:
            nvml.nvmlShutdown()
    except nvml.NVMLError:
        return None
