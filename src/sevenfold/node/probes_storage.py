"""Probes of what lies where: environment, model, caches, logs and output, and what the output folder really can."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from sevenfold.node import kernels, memory, mounts, trial
from sevenfold.node.asked import Subject
from sevenfold.node.doctor import Finding, fail, note, ok, probe, warn
from sevenfold.node.process import output
from sevenfold.node.stage import left_over, refusal, size_of

GIB = 1 << 30
SMALL_SHM = 1 * GIB
"""Containers give 64 MiB by default; an engine with several processes needs some hundred MiB and dies of SIGBUS."""
ROOM_FOR_A_RUN = 5 * GIB
"""A million rows of 2,000 tokens are 5 to 10 GB of ledger; less than this is full within the hour."""
TRIAL = (sys.executable, "-P", "-m", "sevenfold.node.trial")


@probe("mounts")
def where(subject: Subject) -> Iterable[Finding]:
    """file systems of environment, model, cache, logs and output"""
    wanted = subject.wanted
    places: dict[str, Path] = {"output": wanted.output, "logs": wanted.output / "logs"}
    if wanted.starts:
        if wanted.model is not None and wanted.engine != "fake":
            places["model"] = wanted.model
        if (found := subject.installed()) is not None:
            places["environment"] = Path(found.prefix)
        places |= {f"cache {name}": path for name, path in kernels.folders(wanted.engine, wanted.env).items()}
    text = Path("/proc/self/mountinfo").read_text()
    yield from slow({name: path.resolve() for name, path in places.items()}, text)


def slow(places: Mapping[str, Path], mountinfo: str) -> Iterator[Finding]:
    """Pure. The paths are absolute."""
    near = list(mounts.local_places(mountinfo))
    far: list[str] = []
    kinds: dict[str, list[str]] = {}
    for name, path in places.items():
        mount = mounts.mount_of(path, mountinfo)
        kinds.setdefault(mounts.in_words(mount), []).append(name)
        if mounts.is_network(mount.kind):
            far.append(name)
            yield warn(f"{name} {path} lies on {mounts.in_words(mount)}, mounted on {mount.point}", remedy(name, near))
    if not far:
        yield ok("; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items()))


def remedy(name: str, near: list[str]) -> str:
    place = " or ".join(point for point in near if point != "/") or "a local disk"
    if name == "model":
        return f"stage it to {place}: sevenfold stage MODEL --to {place.split(' or ')[0]}"
    if name == "environment":
        return f"copy the environment to {place} and name it in fleet.python"
    if name.startswith("cache"):
        return f"point its variable to {place}: kernels are compiled into it"
    return f"keep it local: -o {place.split(' or ')[0]}/NAME; copy the results afterwards"


@probe("output")
def writable(subject: Subject) -> Iterable[Finding]:
    """create, append, rename, fsync and read in the output folder, tried for real"""
    folder = memory.existing(subject.wanted.output)
    said = output((*TRIAL, str(folder)), 6.0)
    if not said:
        yield fail(f"{folder}: no answer to a tiny file", "a mount hangs, or the folder is not yours")
        return
    yield from tried(folder, msgspec.json.decode(said, type=dict[str, bool]), trial.RUN)
    facts = os.statvfs(folder)
    free = facts.f_bavail * facts.f_frsize
    if free < ROOM_FOR_A_RUN:
        yield warn(f"{folder}: {free / GIB:.1f} GiB free", "a large run fills that; name another folder with -o")
    if facts.f_files and facts.f_favail < 1000:
        yield fail(f"{folder}: {facts.f_favail} inodes free", "remove files, or name another folder with -o")


def tried(folder: Path, done: Mapping[str, bool], needed: tuple[str, ...]) -> Iterator[Finding]:
    """Pure. `needed`: trial.RUN or trial.LOGS."""
    found = trial.faults(done, needed)
    if found:
        yield fail(f"{folder}: {','.join(found)}", "spool locally: name a local folder with -o, upload closed shards")
    elif not done.get("read_while_open", True):
        yield warn(f"{folder}: no file can be read while it is open", "`status` and `logs` stay blind: use a local -o")
    else:
        yield ok(f"{folder}: {', '.join(needed)}")


@probe("ram disk")
def ram_disk(subject: Subject) -> Iterable[Finding]:
    """size of /dev/shm, and whether the model would fit into it"""
    shm = Path("/dev/shm")
    if not shm.is_dir():
        yield warn("/dev/shm is missing", "docker run --shm-size 16g")
        return
    facts = os.statvfs(shm)
    total, room = facts.f_blocks * facts.f_frsize, memory.room(shm)
    if total < SMALL_SHM:
        sentence = f"/dev/shm has {total / GIB:.2f} GiB: an engine of several processes dies of SIGBUS"
        yield warn(sentence, "docker run --shm-size 16g, or --ipc host")
    model = subject.wanted.model
    fits = ""
    if model is not None and model.exists() and subject.wanted.engine != "fake":
        why = refusal(size_of(model), room)
        fits = "; the model would fit" if why is None else f"; the model would not fit: {why}"
    for folder in (shm, *(path for path in shm.iterdir() if path.is_dir())):
        if stale := left_over(folder):
            names = ", ".join(path.name for path in stale)
            yield note(f"unfinished copies in {folder}: {names}", f"sevenfold stage --clean --to {folder}")
    yield ok(f"/dev/shm: {room.free / GIB:.1f} of {total / GIB:.1f} GiB free{fits}")


@probe("kernel cache")
def cache(subject: Subject) -> Iterable[Finding]:
    """compiled kernels: there already, or how the replicas start without fighting over them"""
    wanted = subject.wanted
    folders = kernels.folders(wanted.engine, wanted.env)
    if not wanted.starts or not folders:
        return
    installed = subject.installed()
    version = installed.version if installed else ""
    plan = kernels.start_plan(wanted.replicas, kernels.is_warm(wanted.engine, version, wanted.env))
    yield ok(plan.sentence)
