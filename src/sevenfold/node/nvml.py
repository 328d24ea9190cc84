"""`python -m sevenfold.node.nvml`: everything NVML says of this machine's GPUs, as JSON on stdout.

A program of its own, on the standard library and pynvml alone: a driver that hangs hangs it, and nobody else. What a
device does not tell is null. Exit code 1 where NVML cannot be asked.
"""

import json
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def read(nvml: Any) -> dict[str, Any]:
    """`nvml`: the module pynvml, initialised."""
    return {
        "driver": _text(nvml.nvmlSystemGetDriverVersion()),
        "cuda": _cuda(nvml.nvmlSystemGetCudaDriverVersion_v2()),
        "devices": [_device(nvml, number) for number in range(nvml.nvmlDeviceGetCount())],
    }


def _device(nvml: Any, number: int) -> dict[str, Any]:
    handle = nvml.nvmlDeviceGetHandleByIndex(number)

    def ask(question: Callable[[], Any]) -> Any:
        """None where this device does not know: every NVML question may be unsupported."""
        try:
            return question()
        except nvml.NVMLError:
            return None

    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    processes: list[Any] = ask(lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle)) or []
    power = ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
    limit = ask(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle))
    highest = ask(lambda: nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle))
    uncorrected = lambda: nvml.nvmlDeviceGetTotalEccErrors(  # noqa: E731
        handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
    )
    persistence = ask(lambda: nvml.nvmlDeviceGetPersistenceMode(handle))
    return {
        "index": number,
        "uuid": _text(nvml.nvmlDeviceGetUUID(handle)),
        "name": _text(nvml.nvmlDeviceGetName(handle)),
        "capability": ask(lambda: list(nvml.nvmlDeviceGetCudaComputeCapability(handle))),
        "total_bytes": memory.total,
        "free_bytes": memory.free,
        "processes": [{"pid": p.pid, "used_bytes": p.usedGpuMemory} for p in processes],
        "ecc_uncorrected": ask(uncorrected),
        "power_watts": power / 1000 if power is not None else None,
        "power_limit_watts": limit / 1000 if limit is not None else None,
        "power_default_watts": highest / 1000 if highest is not None else None,
        "persistence": bool(persistence) if persistence is not None else None,
        "bus": _text(nvml.nvmlDeviceGetPciInfo(handle).busId),
    }


def _cuda(number: int) -> str:
    """12080 is 12.8."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def main() -> int:
    try:
        nvml: Any = import_module("pynvml")
    except ImportError as error:
        print(error, file=sys.stderr)
        return 1
    try:
        nvml.nvmlInit()
        json.dump(read(nvml), sys.stdout)
    except nvml.NVMLError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
