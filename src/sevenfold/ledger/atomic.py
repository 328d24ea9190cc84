"""Whole files or none: whoever reads while another writes sees the old content or the new, never a part."""

import contextlib
import os
import threading
from pathlib import Path

from sevenfold.errors import NodeError


def atomic_write(path: Path, content: bytes, durable: bool = True) -> None:
    """Mode 0600. `durable`: on disk when this returns, name included; without it a power cut may bring the old content
    back. NodeError where the disk refuses; the old file then stands."""
    # Named after the writer, so that two at once never write into each other's file.
    beside = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_native_id()}.tmp")
    try:
        with open(beside, "wb", opener=_private) as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        beside.replace(path)
        if durable:
            sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise NodeError(
            f"{path}: cannot be written: {error.strerror}", f"see that {path.parent} has space and may be written to"
        ) from None


def sync_folder(folder: Path) -> None:
    """Makes names that were created or renamed in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
