"""How many CPUs this process may really use: its affinity and its cgroup's quota, whichever is less."""

import os
from pathlib import Path


def available() -> int:
    mask = len(os.sched_getaffinity(0))
    allowed = quota(Path("/sys/fs/cgroup"), Path("/proc/self/cgroup").read_text())
    return max(1, min(mask, int(allowed))) if allowed else mask


def per_replica(replicas: int, cpus: int) -> int:
    return max(1, cpus // replicas)


def quota(root: Path, membership: str) -> float | None:
    """CPUs that the cgroups of /proc/self/cgroup (its text) grant; None where nothing limits them.

    Every cgroup on the way up may limit. Inside a container the path may name what only the host sees: then the root
    is our own cgroup."""
    found: list[float] = []
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = root / "cpu" if controllers else root
        group = base / path.lstrip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(base):
                limit = _v1(folder) if controllers else _v2(folder)
                found += [limit] if limit else []
    return min(found, default=None)


def _v2(folder: Path) -> float | None:
    words = _words(folder / "cpu.max")
    return int(words[0]) / int(words[1]) if words and words[0] != "max" else None


def _v1(folder: Path) -> float | None:
    limit, period = _words(folder / "cpu.cfs_quota_us"), _words(folder / "cpu.cfs_period_us")
    return int(limit[0]) / int(period[0]) if limit and period and int(limit[0]) > 0 else None


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
