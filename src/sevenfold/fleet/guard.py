"""`python -S guard.py LOCK OWNER SECONDS ARGV...`: becomes ARGV, and leaves a guard beside it that outlives us.

A replica must survive its supervisor's death, for a new supervisor adopts it, and must not survive it for ever. The
guard kills the replica's session when nobody has held LOCK for SECONDS, or at once when nobody does and OWNER
("PID:TICKS" or "-") is gone too; it ends with the replica. A program of its own that imports next to nothing: one runs
per replica.
"""

import contextlib
import fcntl
import os
import select
import signal
import sys
import time
from pathlib import Path

NAME = "7fold-guard"
"""By which a guard is told from what it guards; the kernel keeps 15 bytes."""
LOOK = 0.5
"""Seconds between two looks at the lock: a system call, against a replica that holds a GPU."""


def main(lock: str, owner: str, seconds: str, *argv: str) -> None:
    leader = os.getpid()
    handle = os.pidfd_open(leader)
    child = os.fork()
    if child == 0:
        # In a session of its own, so that what stops the replica does not stop the guard first; and twice removed, so
        # that the engine finds no child that it did not make.
        os.setsid()
        if os.fork() == 0:
            guard(leader, handle, lock, owner, float(seconds))
        os._exit(0)
    os.waitpid(child, 0)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # ignored by Python, which an engine would inherit
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        print(f"{argv[0]}: cannot be started: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127)


def guard(leader: int, handle: int, lock: str, owner: str, seconds: float) -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(NAME)
    alone_since = 0.0
    while not select.select([handle], [], [], LOOK)[0]:
        now = time.monotonic()
        if is_held(lock):
            alone_since = 0.0
            continue
        alone_since = alone_since or now
        if now - alone_since >= seconds or not lives(owner):
            print(f"sevenfold: nobody supervises this replica since {now - alone_since:.0f} s: killed", file=sys.stderr)
            sys.stderr.flush()
            kill_session(leader)
    os._exit(0)


def is_held(lock: str) -> bool:
    try:
        file = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def lives(owner: str) -> bool:
    """True for "-": nobody in particular is waited for."""
    if owner == "-":
        return True
    pid, ticks = owner.split(":")
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in "ZX" and fields[19] == ticks


def kill_session(leader: int) -> None:
    """The leader last: its number is nobody else's while it lives."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    for pid in (*(pid for pid in pids if pid != leader), leader):
        with contextlib.suppress(OSError):
            if os.getsid(pid) == leader:
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
