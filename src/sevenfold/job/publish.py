"""What the driver says of itself once a second, for `status` in another shell. Written whole, read whole."""

from typing import Literal

import msgspec

from sevenfold.job.folder import RunFolder
from sevenfold.ledger import atomic_write
from sevenfold.node.process import alive
from sevenfold.types import ReplicaStatus


class DriveStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Times are Unix seconds, rates per second."""

    pid: int
    started: float
    """When the process itself started, as the kernel counts it: a reused pid is told apart by it."""
    at: float
    phase: Literal["starting", "running", "draining", "ended"]
    in_flight: int = 0
    in_flight_by_replica: dict[str, int] = {}
    rows_per_second: float = 0.0
    tokens_per_second: float = 0.0
    eta: tuple[float, float] | None = None
    requeued: int = 0
    replicas: tuple[ReplicaStatus, ...] = ()
    """Those it asks, whoever started them."""
    exit_code: int | None = None
    sentence: str = ""


def publish(folder: RunFolder, status: DriveStatus) -> None:
    atomic_write(folder.drive, msgspec.json.encode(status), durable=False)


def published(folder: RunFolder) -> DriveStatus | None:
    """The last publication, None where no driver ever was here."""
    try:
        return msgspec.json.decode(folder.drive.read_bytes(), type=DriveStatus)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def is_driven(status: DriveStatus) -> bool:
    """Whether the driver that wrote this is still at work."""
    return status.phase != "ended" and alive(status.pid, status.started)
