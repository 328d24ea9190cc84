"""`python -m sevenfold.node.trial FOLDER`: what a folder really can, tried with one tiny file: create, append, rename,
fsync, read while open. JSON on stdout.

Object-store mounts say yes to a folder and no to its use. A program of its own, on the standard library alone: a mount
that hangs hangs it, and nobody else.
"""

import contextlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

LOGS = ("create", "append")
"""What a folder of logs must be able to."""
RUN = (*LOGS, "rename", "fsync")
"""And one of a run: status files are renamed into place, the ledger is synced."""


def faults(tried: Mapping[str, bool], needed: tuple[str, ...]) -> tuple[str, ...]:
    """'no_append', ...; what was not tried is no fault."""
    return tuple(f"no_{deed}" for deed in needed if not tried.get(deed, True))


def attempt(folder: Path) -> dict[str, bool]:
    """Leaves nothing behind."""
    first, second = (folder / f".sevenfold-trial-{os.getpid()}-{part}" for part in ("a", "b"))
    done: dict[str, bool] = dict.fromkeys(("create", "append", "fsync", "read_while_open", "rename"), False)
    with contextlib.suppress(OSError):
        first.write_bytes(b"one\n")
        done["create"] = True
    with contextlib.suppress(OSError), first.open("ab", buffering=0) as file:
        file.write(b"two\n")
        done["append"] = True
        with contextlib.suppress(OSError):
            os.fsync(file.fileno())
            done["fsync"] = True
        with contextlib.suppress(OSError):
            done["read_while_open"] = first.read_bytes() == b"one\ntwo\n"
    with contextlib.suppress(OSError):
        first.rename(second)
        done["rename"] = second.read_bytes() == b"one\ntwo\n"
    for path in (first, second):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
    return done


if __name__ == "__main__":
    json.dump(attempt(Path(sys.argv[1])), sys.stdout)
