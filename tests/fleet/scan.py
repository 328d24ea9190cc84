"""Looks at a fleet from outside: what runs, and when it has ended. Shares no code with sevenfold.node."""

import asyncio
import os
import select
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from sevenfold import fleet
from sevenfold.types import FleetStatus

DEADLINE = 60.0
"""Seconds that no step of a test may take: a real model's load on a busy machine."""


def left_of(run: Path) -> list[str]:
    """The command lines of everything alive that the test of this run folder started, however far down."""
    found: list[str] = []
    for process in psutil.process_iter():
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            if process.environ().get("SEVENFOLD_TEST_RUN") == str(run):
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def wait_ended(*pids: int) -> None:
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        assert select.select([handle], [], [], DEADLINE)[0], f"process {pid} does not end"
        os.close(handle)


def until_nothing_is_left(run: Path) -> None:
    """Waits for the ends of what ends by itself."""
    deadline = time.monotonic() + DEADLINE
    while left := left_of(run):
        assert time.monotonic() < deadline, left


def until(run: Path, reached: Callable[[FleetStatus], bool]) -> FleetStatus:
    """The first published status of which `reached` is true."""

    async def look() -> FleetStatus:
        async with asyncio.timeout(DEADLINE):
            async for status in fleet.follow(run):
                if reached(status):
                    return status
        raise AssertionError("the fleet ended first")

    return asyncio.run(look())


def all_ready(status: FleetStatus) -> bool:
    return len(status.endpoints) == len(status.replicas)
