from dataclasses import replace

import msgspec
import pytest

from sevenfold.errors import ConfigError
from sevenfold.node.asked import Subject, Wanted
from sevenfold.node.devices import Device, Driver, Process
from sevenfold.node.doctor import Finding
from sevenfold.node.interpreter import Build, Installed
from sevenfold.node.probes_gpus import built, count, counted, fits, needed, occupied, places, sound

GIB = 1 << 30
EIGHT = tuple(
    Device(i, f"GPU-{i}{i}", "NVIDIA H200", 140 * GIB, 139 * GIB, (9, 0), bus=f"00000000:{i}A:00.0") for i in range(8)
)
TORCH = Build(4.2, "", "13.0", ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"))
"""What torch 2.11.0+cu130 said on the H200."""


def levels(findings: object) -> list[str]:
    assert isinstance(findings, list)
    return [finding.level for finding in findings if isinstance(finding, Finding)]


def test_enough_gpus() -> None:
    found = list(counted(("2", "3"), "2,3", EIGHT, 2, needed=True))
    assert found == [Finding("ok", "2 x NVIDIA H200: 2,3 (CUDA_VISIBLE_DEVICES=2,3)")]


def test_fewer_gpus_than_replicas() -> None:
    found = list(counted(("2", "3"), "2,3", EIGHT, 7, needed=True))
    assert found[0] == Finding(
        "fail",
        "7 GPUs are asked for and 2 are visible (CUDA_VISIBLE_DEVICES=2,3)",
        "--replicas 2, or name more GPUs in CUDA_VISIBLE_DEVICES",
    )


@pytest.mark.parametrize(("needed", "level"), [(True, "fail"), (False, "note")])
def test_no_gpu_visible(needed: bool, level: str) -> None:
    (found,) = counted((), "", EIGHT, 1, needed)
    assert (found.level, found.sentence[:16]) == (level, "no GPU visible (")


def test_a_preset_list_on_a_machine_without_a_driver() -> None:
    (found,) = counted(("0",), "0", (), 1, needed=True)
    assert found.sentence == "no GPU visible (CUDA_VISIBLE_DEVICES=0, the driver shows none)"


def test_a_preset_entry_that_is_no_gpu_here() -> None:
    found = list(counted(("GPU-00", "GPU-zz", "MIG-1"), "GPU-00,GPU-zz,MIG-1", EIGHT, 1, needed=True))
    assert found[0].sentence == "CUDA_VISIBLE_DEVICES names GPU-zz: no such GPU here"


def test_gpus_of_two_kinds() -> None:
    mixed = (EIGHT[0], msgspec.structs.replace(EIGHT[1], name="NVIDIA B200"))
    assert levels(list(counted(("0", "1"), None, mixed, 2, needed=True))) == ["ok", "warn"]


def test_a_preset_list_with_a_twin_is_a_fault() -> None:
    subject = Subject(Wanted(engine="sglang", env={"CUDA_VISIBLE_DEVICES": "0,0"}), lambda: Driver("1", "13.0", EIGHT))
    with pytest.raises(ConfigError, match="twice"):
        list(count(subject))


def test_a_driver_that_hangs_is_a_fault_of_the_machine() -> None:
    (found,) = count(Subject(Wanted(), lambda: Driver(hangs=True)))
    assert (found.level, found.sentence) == ("fail", "the GPU driver does not answer: a process is stuck in it")


def test_vllm_for_the_cpu_needs_no_gpu() -> None:
    def subject(version: str) -> Subject:
        installed = Installed("3.12.1", "/env", version, "", "")
        return Subject(Wanted(engine="vllm"), lambda: None, lambda _p, _e: installed)

    assert [needed(subject("0.33.0+cpu")), needed(subject("0.33.0"))] == [False, True]


def test_who_else_is_on_a_gpu() -> None:
    busy = msgspec.structs.replace(EIGHT[1], free_bytes=3 * GIB, processes=(Process(411, GIB),))
    lost = msgspec.structs.replace(EIGHT[2], free_bytes=100 * GIB)
    found = list(occupied((EIGHT[0], busy, lost), lambda _pid: "python -m sglang.launch_server"))
    assert levels(found) == ["warn", "warn", "ok"]
    assert "GPU 1: 3.0 of 140.0 GiB free; on it: pid 411 python -m sglang.launch_server" in found[0].sentence
    assert "nobody that can be seen" in found[1].sentence


def test_errors_power_and_persistence() -> None:
    sick = msgspec.structs.replace(
        EIGHT[1], ecc_uncorrected=2, power_limit_watts=400.0, power_default_watts=700.0, persistence=False
    )
    dmesg = (
        "[ 9.1] NVRM: Xid (PCI:0000:1A:00): 79, pid=1234, GPU has fallen off the bus.\n"
        "[ 9.2] NVRM: Xid (PCI:0000:2A:00): 43, pid=1, Ch 00000010\n"
    )
    found = list(sound((EIGHT[0], sick), dmesg))
    assert [f.sentence for f in found] == [
        "GPU 1: 2 uncorrected memory errors since the driver loaded",
        "GPU 1 is limited to 400 W of 700",
        "persistence mode is off on 1: every start waits for the driver",
        "GPU 1 reported Xid 79 since boot",
        "memory errors, power and Xid looked at",
    ]


@pytest.mark.parametrize(
    ("driver", "capability", "build", "said"),
    [
        ("13.0", (9, 0), TORCH, ""),
        ("12.8", (9, 0), TORCH, "driver 580 serves CUDA 12.8, the engine was built with 13.0"),
        ("13.2", (9, 0), TORCH, ""),
        ("13.0", (10, 3), TORCH, ""),
        ("13.0", (7, 0), TORCH, "is sm_70, the engine's torch has sm_75"),
        ("13.0", (10, 0), Build(1.0, "", "12.8", ("sm_90", "sm_120")), "is sm_100, the engine's torch"),
        ("13.0", (12, 0), Build(1.0, "", "12.8", ("sm_90", "sm_100")), "is sm_120, the engine's torch"),
        ("13.0", (9, 0), Build(1.0), "built without CUDA"),
    ],
)
def test_the_engines_build_against_driver_and_gpu(
    driver: str, capability: tuple[int, int], build: Build, said: str
) -> None:
    device = msgspec.structs.replace(EIGHT[0], capability=capability)
    found = list(fits(Driver("580", driver, (device,)), [device], build))
    failed = [f.sentence for f in found if f.level == "fail"]
    assert failed == [] if not said else said in failed[0]


def test_the_build_is_asked_only_where_there_are_gpus() -> None:
    wanted = Wanted(engine="sglang", replicas=1, env={})
    here = Subject(wanted, lambda: Driver("580", "13.0", EIGHT[:1]), imported=lambda *_: TORCH)
    assert [f.level for f in built(here)] == ["ok"]
    assert list(built(Subject(wanted, lambda: None))) == []
    assert list(built(Subject(replace(wanted, starts=False), lambda: None))) == []


def test_no_numa_node_is_said() -> None:
    subject = Subject(Wanted(env={}), lambda: Driver("580", "13.0", EIGHT[:1]))
    assert [f.level for f in places(subject)] == ["note"]
