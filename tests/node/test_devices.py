import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sevenfold.node import nvml
from sevenfold.node.devices import MIB, Device, Driver, Process, driver, from_nvml, from_smi, named, place, runs_on
from sevenfold.node.process import output

H200 = (
    '{"driver": "580.159.04", "cuda": "13.0", "devices": [{"index": 0, "uuid": '
    '"GPU-be253d4f-b1e6-f31c-2232-495a10e32353", "name": "NVIDIA H200", "capability": [9, 0], "total_bytes": '
    '150754820096, "free_bytes": 148387266560, "processes": [{"pid": 411, "used_bytes": 1713373184}], '
    '"ecc_uncorrected": 0, "power_watts": 90.004, "power_limit_watts": 700.0, "power_default_watts": 700.0, '
    '"persistence": true, "bus": "00000000:00:06.0"}]}'
)
"""What sevenfold.node.nvml printed on an H200 with torch on it, 2026-12-01."""

SMI_H200 = (
    "0, GPU-d0019c53-c9fb-e0c0-ea5a-d541e463d6a4, NVIDIA H200, 9.0, 143771, 143156, 0, 129.35, 700.00, 700.00, "
    "Enabled, 00000000:00:06.0, 580.159.04\n"
)
SMI_USERS = "GPU-d0019c53-c9fb-e0c0-ea5a-d541e463d6a4, 411, 1634\n"
"""What nvidia-smi printed there."""

SMI_UNKNOWN = (
    "0, GPU-1a2b, NVIDIA GeForce RTX 4090, 8.9, 24564, 24210, [N/A], [N/A], 450.00, [N/A], Disabled, "
    "00000000:81:00.0, 550.54.15\n"
    "1, GPU-3c4d, NVIDIA GeForce RTX 4090, 8.9, 24564, 24210, [Not Supported], 21.1, 450.00, 450.00, Disabled, "
    "00000000:82:00.0, 550.54.15\n"
)


def test_what_nvml_says_of_an_h200() -> None:
    found = from_nvml(H200)
    device = found.devices[0]
    assert (found.driver, found.cuda, device.name, device.architecture) == (
        "580.159.04",
        "13.0",
        "NVIDIA H200",
        "sm_90",
    )
    assert device.processes == (Process(411, 1713373184),)


def test_what_nvidia_smi_says_of_an_h200() -> None:
    found = from_smi(SMI_H200, SMI_USERS)
    device = found.devices[0]
    assert (found.driver, device.capability, device.total_bytes) == ("580.159.04", (9, 0), 143771 * MIB)
    assert (device.processes, device.ecc_uncorrected, device.persistence) == ((Process(411, 1634 * MIB),), 0, True)


def test_what_a_device_does_not_tell_is_none() -> None:
    first, second = from_smi(SMI_UNKNOWN).devices
    assert (first.ecc_uncorrected, first.power_watts, first.power_default_watts) == (None, None, None)
    assert (second.ecc_uncorrected, second.power_watts, second.persistence) == (None, 21.1, False)


@pytest.mark.parametrize("text", ["", "No devices were found\n", "NVIDIA-SMI has failed because ...\n"])
def test_no_device(text: str) -> None:
    assert from_smi(text).devices == ()


@pytest.mark.parametrize(
    ("entry", "index"),
    [("0", 0), ("1", 1), ("GPU-3c4d", 1), ("GPU-1", 0), ("GPU-", None), ("7", None), ("GPU-9", None)],
)
def test_an_entry_names_a_device_by_index_or_by_the_beginning_of_one_uuid(entry: str, index: int | None) -> None:
    found = named(entry, from_smi(SMI_UNKNOWN).devices)
    assert (found.index if found else None) == index


@pytest.mark.parametrize(
    ("capability", "built", "runs"),
    [
        ((9, 0), ["sm_80", "sm_90"], True),
        ((9, 0), ["sm_90a"], True),
        ((8, 6), ["sm_80"], True),
        ((8, 0), ["sm_86"], False),
        ((10, 0), ["sm_80", "sm_90"], False),
        ((10, 0), ["sm_90", "compute_90"], True),
        ((10, 0), ["sm_90", "compute_90a"], False),
        ((10, 0), ["sm_120"], False),
        ((12, 0), ["sm_100", "sm_100a"], False),
        ((12, 0), ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"], True),
        ((10, 3), ["sm_100f"], True),
        ((10, 3), ["sm_100a"], False),
        ((10, 0), ["", "nonsense"], False),
    ],
)
def test_architectures_are_told_apart(capability: tuple[int, int], built: list[str], runs: bool) -> None:
    assert runs_on(capability, built) is runs


def test_where_a_gpu_hangs(tmp_path: Path) -> None:
    device = Device(0, "GPU-1", "X", 1, 1, bus="00000000:3B:00.0")
    assert place(device, tmp_path).node == -1
    folder = tmp_path / "0000:3b:00.0"
    folder.mkdir()
    (folder / "numa_node").write_text("1\n")
    (folder / "local_cpulist").write_text("48-95\n")
    assert (place(device, tmp_path).node, place(device, tmp_path).cpus) == (1, "48-95")


class NVMLError(Exception):
    pass


def not_supported(*_: Any) -> None:
    raise NVMLError


def test_nvml_is_asked_and_what_it_refuses_is_none() -> None:
    """The part of pynvml that is called, with a device that knows little, and bytes as older versions give."""
    said = SimpleNamespace(
        NVMLError=NVMLError,
        NVML_MEMORY_ERROR_TYPE_UNCORRECTED=1,
        NVML_VOLATILE_ECC=0,
        nvmlSystemGetDriverVersion=lambda: b"570.86",
        nvmlSystemGetCudaDriverVersion_v2=lambda: 12080,
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda number: number,
        nvmlDeviceGetMemoryInfo=lambda _: SimpleNamespace(total=100, free=90),
        nvmlDeviceGetComputeRunningProcesses=lambda _: [SimpleNamespace(pid=7, usedGpuMemory=None)],
        nvmlDeviceGetPowerUsage=not_supported,
        nvmlDeviceGetEnforcedPowerLimit=lambda _: 300000,
        nvmlDeviceGetPowerManagementDefaultLimit=not_supported,
        nvmlDeviceGetTotalEccErrors=not_supported,
        nvmlDeviceGetPersistenceMode=lambda _: 0,
        nvmlDeviceGetCudaComputeCapability=lambda _: (12, 0),
        nvmlDeviceGetUUID=lambda _: b"GPU-1",
        nvmlDeviceGetName=lambda _: "NVIDIA RTX PRO 6000",
        nvmlDeviceGetPciInfo=lambda _: SimpleNamespace(busId=b"00000000:01:00.0"),
    )
    found = nvml.read(said)
    device = found["devices"][0]
    assert (found["driver"], found["cuda"]) == ("570.86", "12.8")
    assert (device["power_watts"], device["power_limit_watts"], device["ecc_uncorrected"]) == (None, 300.0, None)
    assert (device["capability"], device["persistence"], device["uuid"]) == ([12, 0], False, "GPU-1")
    assert device["processes"] == [{"pid": 7, "used_bytes": None}]


def test_l13_an_nvidia_smi_that_hangs_is_left_after_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = tmp_path / "nvidia-smi"
    hanging.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    hanging.chmod(hanging.stat().st_mode | stat.S_IXUSR)
    assert output((os.fspath(hanging),), 0.05) == ""
    monkeypatch.setenv("PATH", os.fspath(tmp_path), prepend=":")
    assert driver(0.5) == Driver(hangs=True)
