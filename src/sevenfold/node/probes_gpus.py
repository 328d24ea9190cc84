"""Probes of the GPUs: are there enough, free and sound, and does the engine's build fit them."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import psutil

from sevenfold.node import interpreter
from sevenfold.node.asked import Subject
from sevenfold.node.devices import Device, Driver, named, place, runs_on
from sevenfold.node.doctor import Finding, fail, note, ok, probe, warn
from sevenfold.node.gpus import VARIABLE, chosen
from sevenfold.node.process import output

MOSTLY_FREE = 0.95
"""Share of its memory that an idle GPU has free; the driver keeps 1 to 2 %."""
GIB = 1 << 30
XID = re.compile(r"NVRM: Xid \(PCI:(?P<bus>[0-9a-fA-F:.]+)\): (?P<code>\d+)")
HARMLESS_XIDS = frozenset({"13", "31", "43", "45"})
"""A program's own fault or end (https://docs.nvidia.com/deploy/xid-errors/); the GPU goes on."""


def ours(subject: Subject) -> tuple[Driver | None, list[Device]]:
    """The driver, and the devices that the preset list leaves us."""
    driver = subject.driver()
    everything = driver.devices if driver else ()
    entries = chosen(subject.wanted.env.get(VARIABLE), lambda: [str(device.index) for device in everything])
    return driver, [device for entry in entries if (device := named(entry, everything))]


@probe("gpus", seconds=20.0)
def count(subject: Subject) -> Iterable[Finding]:
    """as many GPUs as the replicas need, and which"""
    wanted, driver = subject.wanted, subject.driver()
    everything = driver.devices if driver else ()
    preset = wanted.env.get(VARIABLE)
    if driver and driver.hangs:
        yield fail("the GPU driver does not answer: a process is stuck in it", "see dmesg; often only a reboot helps")
        return
    entries = chosen(preset, lambda: [str(device.index) for device in everything])
    if not wanted.starts or wanted.engine == "fake":
        yield ok("none is needed" if not entries else f"{len(entries)} visible, none is needed")
        return
    yield from counted(entries, preset, everything, wanted.replicas * wanted.gpus_each, needed(subject))


def needed(subject: Subject) -> bool:
    """vLLM has builds that need no GPU: its torch tells."""
    if subject.wanted.engine != "vllm":
        return subject.wanted.needs_gpu
    installed = subject.installed()
    return installed is None or "+cpu" not in installed.version + installed.torch


def counted(
    entries: Sequence[str], preset: str | None, everything: Sequence[Device], replicas: int, needed: bool
) -> Iterator[Finding]:
    """Pure. `replicas`: GPUs asked for."""
    said = f"{VARIABLE}={preset}" if preset is not None else "all of them"
    if not entries or not everything:
        shown = "" if everything else "the driver shows none"
        where = ", ".join(part for part in (said if preset is not None else "", shown) if part)
        sentence = f"no GPU visible ({where})"
        if not needed:
            yield note(f"{sentence}: the engine runs on the CPU")
        elif everything:
            yield fail(sentence, "unset it, or name GPUs in it; nvidia-smi -L lists them")
        else:
            yield fail(sentence, "nvidia-smi -L must list one; in a container: docker run --gpus all")
        return
    unknown = [entry for entry in entries if everything and not named(entry, everything) and entry[:4] != "MIG-"]
    if unknown:
        yield fail(f"{VARIABLE} names {', '.join(unknown)}: no such GPU here", "nvidia-smi -L lists them")
    if replicas > len(entries):
        sentence = f"{replicas} GPUs are asked for and {len(entries)} are visible ({said})"
        yield fail(sentence, f"--replicas {len(entries)}, or name more GPUs in {VARIABLE}")
    found = [device for entry in entries if (device := named(entry, everything))]
    kinds = {device.name: sum(1 for d in found if d.name == device.name) for device in found}
    names = ", ".join(f"{number} x {name}" for name, number in kinds.items()) or f"{len(entries)} x unknown"
    yield ok(f"{names}: {','.join(entries)} ({said})")
    if len(kinds) > 1:
        yield warn("GPUs of several kinds: the slowest decides", f"name those of one kind in {VARIABLE}")


@probe("gpu memory", seconds=20.0)
def memory(subject: Subject) -> Iterable[Finding]:
    """free memory of our GPUs, and who else is on them"""
    _, devices = ours(subject)
    yield from occupied(devices, _command)


def occupied(devices: Iterable[Device], command: Callable[[int], str]) -> Iterator[Finding]:
    """Pure but for `command`, which names a pid."""
    free = 0
    for device in devices:
        share = device.free_bytes / device.total_bytes if device.total_bytes else 0.0
        users = ", ".join(f"pid {p.pid} {command(p.pid)}".rstrip() for p in device.processes)
        if device.processes or share < MOSTLY_FREE:
            sentence = (
                f"GPU {device.index}: {device.free_bytes / GIB:.1f} of {device.total_bytes / GIB:.1f} GiB free; "
                f"on it: {users or 'nobody that can be seen (another container, or a dead process)'}"
            )
            yield warn(sentence, "end it, or leave the GPU out of " + VARIABLE)
        else:
            free += 1
    if free:
        yield ok(f"{free} idle, their memory free")


def _command(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline())[:60]
    except psutil.Error:
        return "(of another container)"


@probe("gpu health", seconds=20.0)
def health(subject: Subject) -> Iterable[Finding]:
    """ECC and Xid errors, power limit, persistence mode"""
    _, devices = ours(subject)
    if devices:
        yield from sound(devices, output(("dmesg",), 2.0))


def sound(devices: Sequence[Device], dmesg: str) -> Iterator[Finding]:
    """Pure."""
    for device in devices:
        if device.ecc_uncorrected:
            sentence = f"GPU {device.index}: {device.ecc_uncorrected} uncorrected memory errors since the driver loaded"
            yield warn(sentence, "nvidia-smi --gpu-reset when nothing runs on it, or leave it out")
        limit, usual = device.power_limit_watts, device.power_default_watts
        if limit and usual and limit < 0.98 * usual:
            sentence = f"GPU {device.index} is limited to {limit:.0f} W of {usual:.0f}"
            yield note(sentence, f"nvidia-smi -i {device.index} -pl {usual:.0f}")
    lazy = [str(device.index) for device in devices if device.persistence is False]
    if lazy:
        yield note(f"persistence mode is off on {','.join(lazy)}: every start waits for the driver", "nvidia-smi -pm 1")
    for bus, code in sorted(set(XID.findall(dmesg))):
        if code not in HARMLESS_XIDS:
            mine = [device for device in devices if bus.lower() in device.bus.lower()]
            which = f"GPU {mine[0].index}" if mine else f"the GPU at {bus}"
            yield warn(f"{which} reported Xid {code} since boot", "see dmesg and docs.nvidia.com/deploy/xid-errors")
    yield ok("memory errors, power and Xid looked at" if dmesg else "memory errors and power looked at; no dmesg here")


@probe("gpu places", seconds=20.0)
def places(subject: Subject) -> Iterable[Finding]:
    """NUMA node and near CPU cores of each GPU"""
    _, devices = ours(subject)
    where = {device.index: place(device) for device in devices}
    nodes = {number: spot for number, spot in where.items() if spot.node >= 0}
    if nodes:
        yield ok("; ".join(f"GPU {number}: NUMA node {s.node}, CPUs {s.cpus}" for number, s in nodes.items()))
    elif devices:
        yield note("the machine does not say on which NUMA node a GPU hangs")


@probe("engine build", seconds=lambda subject: subject.patience + 3.0)
def built(subject: Subject) -> Iterable[Finding]:
    """driver and GPUs against the CUDA and the architectures that the engine was built for"""
    if not subject.wanted.starts or subject.wanted.engine not in ("sglang", "vllm"):
        return
    driver, devices = ours(subject)
    if driver is None or not devices:
        return
    build = subject.build()
    if build is None or build.error:
        return  # "engine import" says so
    yield from fits(driver, devices, build)


def fits(driver: Driver, devices: Sequence[Device], build: interpreter.Build) -> Iterator[Finding]:
    """Pure."""
    if build.cuda is None:
        yield fail("the engine's torch was built without CUDA", "install its CUDA build, or name another fleet.python")
        return
    if driver.cuda and not interpreter.serves(driver.cuda, build.cuda):
        sentence = f"driver {driver.driver} serves CUDA {driver.cuda}, the engine was built with {build.cuda}"
        yield fail(sentence, "a newer driver, or the engine's build for this CUDA")
    for device in {d.architecture: d for d in devices}.values():
        if device.capability and build.architectures and not runs_on(device.capability, build.architectures):
            sentence = f"{device.name} is {device.architecture}, the engine's torch has {' '.join(build.architectures)}"
            yield fail(sentence, f"install a build that has {device.architecture}")
            return
    names = ", ".join(sorted({device.architecture for device in devices}))
    yield ok(f"driver {driver.driver} (CUDA {driver.cuda or '?'}), engine for CUDA {build.cuda}; {names} is built for")
