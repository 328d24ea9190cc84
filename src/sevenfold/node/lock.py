"""One at a time, across processes: the kernel gives the lock back however its holder ends."""

import contextlib
import fcntl
import os
from collections.abc import Generator
from pathlib import Path

from sevenfold.errors import NodeError


@contextlib.contextmanager
def alone(path: Path) -> Generator[None]:
    """Waits until nobody else holds the lock file, which stays. NodeError where it cannot be made or locked."""
    file = -1
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError as error:
        if file >= 0:
            os.close(file)
        raise NodeError(f"{path}: cannot be locked: {error.strerror}", "see that its folder is yours") from None
    try:
        yield
    finally:
        os.close(file)
