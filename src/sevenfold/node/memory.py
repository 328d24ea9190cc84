"""How many bytes a folder can still take, and the machine's memory where the folder lies in it.

The readers of /proc's and the cgroup's words are pure.
"""

import os
from pathlib import Path

from sevenfold.node.mounts import RAM, filesystem
from sevenfold.node.stage import Room, left_over

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def room(target: Path) -> Room:
    """Of a folder that need not exist yet."""
    place = existing(target)
    facts = os.statvfs(place)
    in_ram = filesystem(place).kind in RAM
    stale = tuple(path.name for path in left_over(target)) if target.is_dir() else ()
    return Room(facts.f_bavail * facts.f_frsize, left() if in_ram else None, stale)


def existing(path: Path) -> Path:
    """The path itself, or what there is of the way to it."""
    path = path.absolute()
    return next(place for place in (path, *path.parents) if place.exists())


def left() -> int:
    """Bytes that this process and its children may still take."""
    words = [_word(CGROUP / name) for name in ("memory.max", "memory.current")]
    return least(MEMINFO.read_text(), *words)


def least(meminfo: str, limit: str = "", used: str = "") -> int:
    """What the machine has available, or the cgroup leaves, whichever is less. A RAM disk counts in both."""
    lines = dict(line.split(":", 1) for line in meminfo.splitlines() if ":" in line)
    available = int(lines.get("MemAvailable", "0 kB").split()[0]) * 1024
    if limit.isdecimal() and used.isdecimal():
        return max(0, min(available, int(limit) - int(used)))
    return available


def _word(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
