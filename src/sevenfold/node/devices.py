"""What the driver says of this machine's GPUs. It is asked in a process of its own: a driver that hangs stops nobody.

The readers of NVML's and nvidia-smi's words are pure.
"""

import csv
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from sevenfold.node.process import output

PATIENCE = 8.0
"""Seconds for the driver. Without persistence mode it wakes up for 2 to 3 s per GPU; more is a sign by itself."""

QUERY = (
    "index,uuid,name,compute_cap,memory.total,memory.free,ecc.errors.uncorrected.volatile.total,power.draw,"
    "power.limit,power.default_limit,persistence_mode,pci.bus_id,driver_version"
)
SMI = ("nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits")
SMI_PROCESSES = ("nvidia-smi", "--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader,nounits")
NVML = (sys.executable, "-P", "-m", "sevenfold.node.nvml")
MIB = 1 << 20


class Process(msgspec.Struct, frozen=True):
    pid: int
    used_bytes: int | None = None


class Device(msgspec.Struct, frozen=True):
    index: int
    uuid: str
    name: str
    total_bytes: int
    free_bytes: int
    capability: tuple[int, int] | None = None
    """Compute capability: (9, 0) is sm_90, (10, 0) sm_100, (12, 0) sm_120."""
    processes: tuple[Process, ...] = ()
    ecc_uncorrected: int | None = None
    """Since the driver was loaded."""
    power_watts: float | None = None
    power_limit_watts: float | None = None
    power_default_watts: float | None = None
    persistence: bool | None = None
    bus: str = ""

    @property
    def architecture(self) -> str:
        return f"sm_{self.capability[0]}{self.capability[1]}" if self.capability else "sm_?"


class Driver(msgspec.Struct, frozen=True):
    driver: str = ""
    cuda: str = ""
    """The newest CUDA it serves, such as '12.8'; empty where it was not told."""
    devices: tuple[Device, ...] = ()
    hangs: bool = False
    """It did not answer in time: a process is stuck inside it."""


class Place(msgspec.Struct, frozen=True):
    """Where a GPU hangs: its NUMA node, -1 where the machine has none or does not say; CPUs that are near."""

    node: int
    cpus: str


def driver(seconds: float = PATIENCE) -> Driver | None:
    """None where there is none."""
    end = time.monotonic() + seconds
    said = output(NVML, seconds)
    if said:
        return from_nvml(said)
    table = output(SMI, max(0.0, end - time.monotonic()))
    if table:
        return from_smi(table, output(SMI_PROCESSES, seconds))
    return Driver(hangs=True) if time.monotonic() >= end else None


def from_nvml(said: str) -> Driver:
    return msgspec.json.decode(said, type=Driver)


def from_smi(table: str, processes: str = "") -> Driver:
    """Of what SMI and SMI_PROCESSES print. It does not tell the driver's CUDA version."""
    users: dict[str, list[Process]] = {}
    for row in _rows(processes, 3):
        used = _number(row[2])
        users.setdefault(row[0], []).append(Process(int(row[1]), int(used * MIB) if used is not None else None))
    devices: list[Device] = []
    version = ""
    for row in _rows(table, 13):
        index, uuid, name, capability, total, free, ecc, draw, limit, default, persistence, bus, version = row
        errors = _number(ecc)
        devices.append(
            Device(
                index=int(index),
                uuid=uuid,
                name=name,
                total_bytes=int((_number(total) or 0) * MIB),
                free_bytes=int((_number(free) or 0) * MIB),
                capability=_capability(capability),
                processes=tuple(users.get(uuid, ())),
                ecc_uncorrected=int(errors) if errors is not None else None,
                power_watts=_number(draw),
                power_limit_watts=_number(limit),
                power_default_watts=_number(default),
                persistence={"Enabled": True, "Disabled": False}.get(persistence),
                bus=bus,
            )
        )
    return Driver(version, "", tuple(devices))


def named(entry: str, devices: Sequence[Device]) -> Device | None:
    """The device that an entry of CUDA_VISIBLE_DEVICES means: an index, or the beginning of one UUID."""
    if entry.isdecimal():
        return next((device for device in devices if device.index == int(entry)), None)
    found = [device for device in devices if device.uuid.startswith(entry)]
    return found[0] if len(found) == 1 else None


def runs_on(capability: tuple[int, int], built_for: Sequence[str]) -> bool:
    """Whether code built for these architectures runs there: machine code of the same major version and at most the
    same minor, PTX of any earlier one. sm_100 code does not run on sm_120, nor the other way round.

    A suffix 'a' ties code to that very architecture (https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/)."""
    for arch in built_for:
        kind, _, digits = arch.partition("_")
        number = digits.rstrip("af")
        if not number.isdecimal() or len(number) < 2:
            continue
        theirs = int(number[:-1]), int(number[-1])
        if theirs == capability:
            return True
        older = theirs < capability and not digits.endswith("a")
        if older and (theirs[0] == capability[0] or (kind == "compute" and not digits.endswith("f"))):
            return True
    return False


def place(device: Device, root: Path = Path("/sys/bus/pci/devices")) -> Place:
    # The driver writes the PCI domain with eight digits, the kernel with four.
    domain, _, rest = device.bus.lower().partition(":")
    folder = root / f"{domain[-4:]}:{rest}"
    try:
        return Place(int((folder / "numa_node").read_text()), (folder / "local_cpulist").read_text().strip())
    except (OSError, ValueError):
        return Place(-1, "")


def _rows(table: str, width: int) -> list[list[str]]:
    rows = [[cell.strip() for cell in row] for row in csv.reader(table.splitlines())]
    return [row for row in rows if len(row) == width]


def _number(cell: str) -> float | None:
    """None for '[N/A]', '[Not Supported]' and their kin."""
    try:
        return float(cell)
    except ValueError:
        return None


def _capability(cell: str) -> tuple[int, int] | None:
    major, _, minor = cell.partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None
