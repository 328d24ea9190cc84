"""One driver per ledger file, by flock: the kernel gives the lock back however the holder ends.

The lock file stays for ever, since removing it would let two hold two locks of one name. What it says is read only
while somebody holds it. It does not fence a holder whose file system forgot the lock: the ledger's epoch does.
"""

import contextlib
import fcntl
import os
import socket
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from sevenfold.errors import LockedError, NodeError


class Holder(msgspec.Struct, frozen=True):
    pid: int
    host: str
    since: str
    """ISO 8601, UTC."""


@contextlib.contextmanager
def held(path: Path) -> Generator[None]:
    """LockedError names the process that has it. NodeError where the file system cannot lock."""
    file = _acquire(path)
    try:
        yield
    finally:
        os.close(file)


def _acquire(path: Path) -> int:
    """The open, locked file's descriptor. O_CLOEXEC: a replica started by the holder must not keep the lock."""
    file = -1
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        holder = Holder(os.getpid(), socket.gethostname(), datetime.now(UTC).isoformat(timespec="seconds"))
        os.ftruncate(file, 0)
        os.pwrite(file, msgspec.json.encode(holder) + b"\n", 0)
    except OSError as error:
        refusal = _locked(path, file) if isinstance(error, BlockingIOError) else _unlockable(path, error)
        if file >= 0:
            os.close(file)
        raise refusal from None
    return file


def _locked(path: Path, file: int) -> LockedError:
    try:
        holder = msgspec.json.decode(os.pread(file, 4096, 0), type=Holder)
    except msgspec.DecodeError:  # it has the lock and has not yet said who it is
        return LockedError(f"{path}: another driver has just begun here", "wait for it, or stop it")
    return LockedError(
        f"{path}: another driver is at work here: process {holder.pid} on {holder.host}, since {holder.since}",
        f"wait for it, or stop it with: kill {holder.pid}",
    )


def _unlockable(path: Path, error: OSError) -> NodeError:
    return NodeError(f"{path}: cannot be locked: {error.strerror}", "put the run on a local disk that has space")
