"""Probes of the machine's limits: open files, CPU cores, ports."""

import os
import resource
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sevenfold.node import cpus, memory, ports
from sevenfold.node.asked import Subject
from sevenfold.node.doctor import Finding, fail, ok, probe, warn

FILES_EACH = 1024
"""Open files per replica: one connection per request in flight, with room to spare."""
GIB = 1 << 30


@probe("limits")
def limits(subject: Subject) -> Iterable[Finding]:
    """open files and processes that the shell allows"""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield from open_files(soft, hard, subject.wanted.replicas)
    threads = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if threads not in (-1, resource.RLIM_INFINITY) and threads < 4096:
        yield warn(f"{threads} processes and threads are allowed", "ulimit -u 65536: an engine starts hundreds each")


def open_files(soft: int, hard: int, replicas: int) -> Iterator[Finding]:
    """Pure. -1: no limit."""
    need = 1024 + FILES_EACH * replicas
    if soft != -1 and soft < need:
        higher = f"ulimit -n {need}" if hard == -1 or hard >= need else f"raise the hard limit of {hard} to {need}"
        yield warn(f"{soft} open files are allowed, {replicas} replicas may need {need}", higher)
    else:
        yield ok(f"{'any number of' if soft == -1 else soft} open files")


@probe("cpus")
def cores(subject: Subject) -> Iterable[Finding]:
    """CPU cores and memory for the replicas"""
    available, replicas = cpus.available(), subject.wanted.replicas
    nodes = len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or 1
    said = f"{available} of {os.cpu_count()} CPUs are ours, {nodes} NUMA node{'s' if nodes > 1 else ''}"
    said += f"; {memory.left() / GIB:.0f} GiB of memory left"
    if subject.wanted.starts and available < replicas:
        yield warn(
            f"{said}: fewer CPUs than the {replicas} replicas", "starts take turns; fewer --replicas load faster"
        )
    else:
        yield ok(said)


@probe("ports")
def free(subject: Subject) -> Iterable[Finding]:
    """the ports of the replicas, and those that the engine opens inside"""
    wanted = subject.wanted
    if not wanted.starts:
        return
    if not wanted.ports:
        yield ok("no first port was named: each replica takes a free one")
        return
    yield from taken({port: ports.busy(port) for port in (*wanted.ports, *wanted.inner_ports)}, wanted.ports)


def taken(holders: dict[int, str | None], named: Sequence[int]) -> Iterator[Finding]:
    """Pure. `holders`: who listens on each port, None where it is free."""
    for port, who in holders.items():
        if who is None:
            continue
        if port in named:
            yield fail(f"port_in_use {port}: held by {who}", "end it, or set fleet.base_port to other ports")
        else:
            yield fail(f"port_in_use {port}, the engine's own for collectives: held by {who}", "set fleet.base_port")
    open_ones = [port for port, who in holders.items() if who is None]
    if open_ones and len(open_ones) == len(holders):
        yield ok(f"free: {', '.join(map(str, open_ones))}")
