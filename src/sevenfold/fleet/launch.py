"""In which order replicas start: few at a time where cores are few, and one alone where kernels are not compiled yet.

Engines compile kernels at their first start into one cache of the user's; seven that do so at once fight over it.
"""

import asyncio
import contextlib
import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from sevenfold.engines.base import Serve
from sevenfold.fleet.plan import GPU_ENGINES, FleetPlan
from sevenfold.node import kernels, process

KIND = ("nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader")
PATIENCE = 30.0
"""Seconds for nvidia-smi: without persistence mode the driver of eight GPUs wakes up for that long."""


class Turns:
    """`at_once`: starts at a time. `markers`: the files that together say kernels are compiled; none where nothing
    compiles."""

    def __init__(self, at_once: int, markers: Sequence[Path] = ()) -> None:
        self._places = asyncio.Semaphore(max(1, at_once))
        self._markers = markers
        self._starting: set[str] = set()
        self._pioneer: str | None = None
        self._open = asyncio.Event()
        if all(marker.exists() for marker in markers):
            self._open.set()

    async def take(self, name: str) -> None:
        """Waits for the turn of `name`, which lasts until it is given back."""
        if not self._open.is_set():
            self._pioneer = self._pioneer or name
            if name != self._pioneer:
                await self._open.wait()
        await self._places.acquire()
        self._starting.add(name)

    def give(self, name: str) -> None:
        if name in self._starting:
            self._starting.remove(name)
            self._places.release()

    def came_up(self) -> None:
        """One is ready: its kernels are there for the others."""
        if not self._open.is_set():
            with contextlib.suppress(OSError):  # the next fleet then starts one by one again
                for marker in self._markers:
                    marker.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    marker.touch(mode=0o600)
        self._open.set()

    def gave_up(self, name: str) -> None:
        """A pioneer that failed for good holds nobody back: it may be its GPU alone."""
        if name == self._pioneer:
            self._open.set()


def markers_for(plan: FleetPlan, cache: Path, gpu: str) -> tuple[Path, ...]:
    """One for what kernels depend on: the engine's version, the kind of GPU and the model's shapes; and those inside
    the engine's own caches, which go with them and which `doctor` looks at."""
    if plan.engine not in GPU_ENGINES:
        return ()
    serve = plan.replicas[0]
    found = version(serve, plan.engine)
    facts = "\n".join((plan.engine, found or serve.python, gpu, serve.model, repr(sorted(serve.flags.items()))))
    own = cache / "warm" / f"{plan.engine}-{hashlib.sha256(facts.encode()).hexdigest()[:16]}"
    return (own, *kernels.markers(plan.engine, found, {**os.environ, **serve.env}))


def version(serve: Serve, engine: str) -> str:
    """Of the engine's package, by the folders of its interpreter and PYTHONPATH; empty where those do not tell."""
    roots = [Path(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    roots += sorted(Path(serve.python).parent.parent.glob("lib/python3*/site-packages"))
    for root in roots:
        for info in sorted(root.glob(f"{engine}-*.dist-info")):
            found = re.fullmatch(rf"{engine}-(.+)\.dist-info", info.name)
            if found:
                return found[1]
    return ""


def gpu_kind() -> str:
    """Blocks. Empty where it cannot be asked."""
    return process.output(KIND, PATIENCE).partition("\n")[0].strip()
