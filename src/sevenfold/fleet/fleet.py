"""The client's side of a fleet: start, follow, look, stop. From any process, by the run folder alone."""

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from sevenfold.errors import ConfigError, FleetError, NodeError
from sevenfold.fleet.plan import FleetPlan, read_plan, status_path, write_plan
from sevenfold.node import process
from sevenfold.node.lock import alone
from sevenfold.node.ports import require_free
from sevenfold.types import FleetStatus

LOOK = 0.1
"""Seconds between looks at the published status: a stat of one file."""
FIRST_WORD = 60.0
"""Seconds for a new supervisor to publish: it imports for one second, on a busy network file system for many."""
TIMEOUT = 30.0
"""Seconds for a supervisor to stop its replicas; it needs its grace and the kernel's time to kill."""


def start(run: Path, plan: FleetPlan) -> bool:
    """Starts the supervisor; returns once it has published, long before a replica is ready.

    False where a fleet like this one runs here already: it is used. ConfigError where another one does; NodeError
    where a port that the user named is taken."""
    with alone(run / "fleet" / "start.lock"):
        if _adopts(run, plan):
            return False
        stop(run)  # what a killed supervisor may have left
        if plan.named_ports:
            for serve in plan.replicas:
                require_free(serve.port)
        status_path(run).unlink(missing_ok=True)
        write_plan(run, plan)
        argv = (sys.executable, "-P", "-m", "sevenfold.fleet.supervisor", str(run))
        log = run / "logs" / "supervisor.log"
        supervisor = process.detach(argv, process.mark(run, process.SUPERVISOR), log)
        deadline = time.monotonic() + FIRST_WORD
        while not status_path(run).exists():
            if not process.alive(supervisor.pid, supervisor.started) or time.monotonic() > deadline:
                process.send(supervisor, signal.SIGKILL)
                process.reap(supervisor.pid)
                last = log.read_text(errors="replace").strip().rpartition("\n")[2]
                raise FleetError(f"the supervisor did not come up: {last or 'it said nothing'}", f"see {log}")
            time.sleep(LOOK)
    return True


def status(run: Path) -> FleetStatus | None:
    """What the supervisor published last; None where none ever did. Of a dead supervisor's replicas none runs."""
    try:
        found = msgspec.json.decode(status_path(run).read_bytes(), type=FleetStatus)
    except (OSError, msgspec.DecodeError):
        return None
    return found if process.marked_as(found.supervisor, run) else _dead(found)


def stop(run: Path, timeout: float = TIMEOUT) -> list[str]:
    """Ends the supervisor and its replicas, and whatever a crash left of them. Names what was running. Blocks.

    NodeError where something cannot be killed."""
    found = process.marked(run)
    supervisors = [p.process for p in found if p.replica == process.SUPERVISOR]
    left = process.stop(lambda: [p for p in supervisors if process.alive(p.pid, p.started)], timeout)
    # Only now: a supervisor would start again what is stopped beside it.
    left += process.stop(lambda: [p.process for p in process.marked(run)], 0.0 if supervisors else timeout)
    for supervisor in supervisors:
        process.reap(supervisor.pid)
    if left:
        pids = " ".join(str(p.pid) for p in left)
        raise NodeError(f"these processes of {run} cannot be killed: {pids}", "a device or a mount hangs: see dmesg")
    names = sorted({p.replica for p in found} - {process.SUPERVISOR}, key=lambda name: (len(name), name))
    return [f"replica {name}" for name in names] + (["supervisor"] if supervisors else [])


async def follow(run: Path) -> AsyncIterator[FleetStatus]:
    """Every change, from now on. The last one says in `ended` why there will be no more.

    FleetError where no fleet was ever started."""
    seen: tuple[object, ...] = ()
    while True:
        found = status(run)
        if found is None:
            raise FleetError(f"{run}: no replicas were started here", f"sevenfold up -o {run}")
        news = (found.replicas, found.ended)
        if news != seen:
            seen = news
            yield found
        if found.ended:
            return
        await asyncio.sleep(LOOK)


def _adopts(run: Path, plan: FleetPlan) -> bool:
    found = status(run)
    if found is None or found.ended:
        return False  # an ending supervisor's replicas are of no use any more
    running = read_plan(run)
    if running.owner and not process.alive(running.owner.pid, running.owner.started):
        return False  # it is ending with its owner
    if not plan.is_like(running):
        raise ConfigError(f"{run}: replicas of another plan run here", f"sevenfold down {run}")
    return True


def _dead(found: FleetStatus) -> FleetStatus:
    replicas = tuple(
        msgspec.structs.replace(r, phase="failed" if r.phase == "failed" else "stopped", pid=None, progress="")
        for r in found.replicas
    )
    return msgspec.structs.replace(found, replicas=replicas, ended=found.ended or "the supervisor was killed")
