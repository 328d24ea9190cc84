"""The client's side of a fleet: start, follow, look, stop. From any process, by the run folder alone."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import msgspec

from sevenfold.errors import ConfigError, FleetError, NodeError
from sevenfold.fleet.plan import FleetPlan, published, read_plan, request_path, status_path, write_plan
from sevenfold.ledger import atomic_write
from sevenfold.node import process
from sevenfold.node.lock import alone
from sevenfold.node.ports import require_free
from sevenfold.types import FleetStatus, ReplicaStatus

What = Literal["restart", "drain"]

LOOK = 0.1
"""Seconds between looks at the published status: a stat of one file."""
FIRST_WORD = 60.0
"""Seconds for a new supervisor to publish: it imports for one second, on a busy network file system for many."""
KILLED = "the supervisor was killed"
REVIVALS = 3
"""New supervisors by one who follows: what kills them again and again will kill the next one too."""
TIMEOUT = 30.0
"""Seconds for a supervisor to stop its replicas; it needs its grace and the kernel's time to kill."""


def start(run: Path, plan: FleetPlan) -> bool:
    """Starts the supervisor; returns once it has published, long before a replica is ready.

    False where a fleet like this one runs here already: it is used. ConfigError where another one does; NodeError
    where a port that the user named is taken."""
    with alone(run / "fleet" / "start.lock"):
        if _adopts(run, plan):
            return False
        if not _inherits(run, plan):
            stop(run)  # what a killed supervisor may have left
            if plan.named_ports:
                require_free(serve.port for serve in plan.replicas)
            status_path(run).unlink(missing_ok=True)
        write_plan(run, plan)
        argv = (sys.executable, "-P", "-m", "sevenfold.fleet.supervisor", str(run))
        log = run / "logs" / "supervisor.log"
        supervisor = process.detach(argv, process.mark(run, process.SUPERVISOR), log)
        deadline = time.monotonic() + FIRST_WORD
        while (said := published(run)) is None or said.supervisor != supervisor.pid:
            if not process.alive(supervisor.pid, supervisor.started) or time.monotonic() > deadline:
                process.send(supervisor, signal.SIGKILL)
                process.reap(supervisor.pid)
                last = log.read_text(errors="replace").strip().rpartition("\n")[2]
                raise FleetError(f"the supervisor did not come up: {last or 'it said nothing'}", f"see {log}")
            time.sleep(LOOK)
    return True


def status(run: Path) -> FleetStatus | None:
    """What the supervisor published last; None where none ever did. A killed supervisor's replicas live on for a while:
    those that do keep their phase."""
    found = published(run)
    if found is None:
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


def ask(run: Path, replica: str, what: What) -> None:
    """Asks the supervisor to restart one replica, or to stop it and leave it down. Its requests go to the others.

    ConfigError where no such replica is supervised."""
    found = status(run)
    if found is None or found.ended:
        raise ConfigError(f"{run}: no replicas run here", f"sevenfold up -o {run}")
    names = [r.name for r in found.replicas]
    if replica not in names:
        raise ConfigError(f"{run}: no replica {replica!r}", f"replicas here: {', '.join(names)}")
    atomic_write(request_path(run, replica), what.encode(), durable=False)


async def follow(run: Path) -> AsyncIterator[FleetStatus]:
    """Every change, from now on. The last one says in `ended` why there will be no more.

    A killed supervisor is replaced by a new one where its replicas are ours or nobody's in particular; where they are
    another's, that one is waited for while they live. FleetError where no fleet was ever started."""
    seen: tuple[object, ...] = ()
    revivals = 0
    while True:
        found = status(run)
        if found is None:
            raise FleetError(f"{run}: no replicas were started here", f"sevenfold up -o {run}")
        if found.ended == KILLED and _may_revive(run) and revivals < REVIVALS:
            revivals += 1
            await asyncio.to_thread(start, run, read_plan(run))
            continue
        if found.ended == KILLED and not _may_revive(run) and any(_lives(r) for r in found.replicas):
            await asyncio.sleep(LOOK)
            continue
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


def _inherits(run: Path, plan: FleetPlan) -> bool:
    """Whether a killed supervisor of the same plan may have left replicas worth keeping."""
    found = published(run)
    try:
        return found is not None and not found.ended and plan.is_like(read_plan(run))
    except ConfigError:
        return False


def _may_revive(run: Path) -> bool:
    owner = read_plan(run).owner
    return owner is None or owner == process.identity(os.getpid())


def _dead(found: FleetStatus) -> FleetStatus:
    replicas = tuple(r if _lives(r) else _stopped(r) for r in found.replicas)
    return msgspec.structs.replace(found, replicas=replicas, ended=found.ended or KILLED)


def _lives(replica: ReplicaStatus) -> bool:
    return replica.pid is not None and process.alive(replica.pid, replica.started)


def _stopped(replica: ReplicaStatus) -> ReplicaStatus:
    phase = "failed" if replica.phase == "failed" else "stopped"
    return msgspec.structs.replace(replica, phase=phase, pid=None, progress="")
