"""`python -m sevenfold.fleet.supervisor RUN`: the process that owns a run's replicas.

It reads RUN/fleet/plan.json, keeps the replicas up and publishes RUN/fleet/status.json, whole, at every change and at
least every two seconds. It ends on SIGTERM, with its owner, or when no replica can be kept, and stops its replicas
then. Where it is killed they live on for a while under their guards: the next supervisor of the same plan adopts them.
"""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import msgspec

from sevenfold.errors import FleetError, NodeError, SevenfoldError
from sevenfold.events import Journal
from sevenfold.fleet import guard, launch
from sevenfold.fleet.canary import Panel
from sevenfold.fleet.keeper import GRACE, Keeper, Shared
from sevenfold.fleet.launch import Turns
from sevenfold.fleet.pace import Pace
from sevenfold.fleet.plan import (
    GPU_ENGINES,
    FleetPlan,
    published,
    read_plan,
    request_path,
    status_path,
    supervisor_lock,
)
from sevenfold.ledger import atomic_write
from sevenfold.node import cpus, process
from sevenfold.node.lock import alone
from sevenfold.node.models import cache_folder
from sevenfold.types import FleetStatus

BEAT = 2.0
"""Seconds between two publications where nothing changes."""

HEAR = 0.5
"""Seconds between two looks for a request: somebody waits at a keyboard."""


class Supervisor:
    def __init__(self, run: Path, plan: FleetPlan) -> None:
        self._run, self._plan = run, plan
        self._journal = Journal(run / "events.jsonl", "supervisor")
        self._changed, self._end = asyncio.Event(), asyncio.Event()
        self._ended = ""
        markers = launch.markers_for(plan, cache_folder(), launch.gpu_kind()) if plan.engine in GPU_ENGINES else ()
        names = [str(number) for number in range(len(plan.replicas))]
        panel = Panel(names, plan.replicas[0].model_name, plan.canary)
        shared = Shared(Turns(cpus.available(), markers), panel, self._journal)
        self._keepers = [Keeper(plan, number, shared) for number in range(len(plan.replicas))]
        self._pace = Pace()
        for keeper in self._keepers:
            keeper.changed = self._changed.set

    async def run(self) -> int:
        """The exit code. Nothing that it started lives when it returns."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.end, "stopped")
        self._journal.say("supervisor started", pid=os.getpid(), replicas=len(self._keepers))
        self._inherit()
        try:
            async with asyncio.TaskGroup() as tasks:
                work = [tasks.create_task(part) for part in (self._publish_changes(), self._keep_all(), self._hear())]
                if self._plan.owner:
                    work.append(tasks.create_task(self._watch(self._plan.owner)))
                await self._end.wait()
                for task in work:
                    task.cancel()
        finally:
            await asyncio.to_thread(self._stop_all)
        return FleetError.exit_code if self._is_lost else 0

    def _inherit(self) -> None:
        """Adopts the replicas that a killed supervisor left, and ends whatever else it left."""
        before = published(self._run)
        found = {replica.name: replica for replica in before.replicas} if before else {}
        adopted: set[int] = set()
        for keeper in self._keepers:
            old = found.get(keeper.name)
            if not old or not old.pid or not process.alive(old.pid, old.started):
                continue
            if process.marked_as(old.pid, self._run) == keeper.name:
                keeper.adopt(old)
                adopted.add(old.pid)
        self._sweep(adopted)

    def _sweep(self, kept: set[int]) -> list[process.Identity]:
        """Ends what carries this run's mark, but for the sessions of `kept` and their guards. Blocks."""

        def strays() -> list[process.Identity]:
            marked = [m.process for m in process.marked(self._run) if m.replica != process.SUPERVISOR]
            return [p for p in marked if not process.descends(p.pid, kept) and not (kept and _is_guard(p.pid))]

        return process.stop(strays, 0.0)

    def end(self, why: str) -> None:
        """The first reason stands."""
        self._ended = self._ended or why
        self._end.set()

    @property
    def _is_lost(self) -> bool:
        return all(keeper.life.phase == "failed" for keeper in self._keepers)

    async def _keep_all(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for keeper in self._keepers:
                tasks.create_task(keeper.keep())
        self.end(f"no replica could be kept: {self._keepers[0].life.reason}")

    async def _watch(self, owner: process.Identity) -> None:
        await process.gone(owner)
        self.end(f"process {owner.pid}, for which the replicas ran, has ended")

    async def _hear(self) -> None:
        """Obeys the request files of the run folder; one that asks for nonsense is taken away as well."""
        while True:
            for keeper in self._keepers:
                path = request_path(self._run, keeper.name)
                if path.exists():
                    asked = path.read_text()
                    path.unlink(missing_ok=True)
                    if asked in ("restart", "drain"):
                        keeper.request(asked)
            await asyncio.sleep(HEAR)

    async def _publish_changes(self) -> None:
        while True:
            self._changed.clear()
            self._publish()
            try:
                async with asyncio.timeout(BEAT):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _flag_slow(self) -> None:
        ready = [keeper for keeper in self._keepers if keeper.life.phase == "ready"]
        slow = self._pace.see(time.monotonic(), {keeper.name: keeper.load for keeper in ready})
        for keeper in self._keepers:
            why = slow.get(keeper.name, "")
            if bool(why) != bool(keeper.slow):
                self._journal.say("replica slow" if why else "replica fast again", replica=keeper.name, why=why)
            keeper.slow = why

    def _publish(self) -> None:
        self._flag_slow()
        replicas = tuple(keeper.status() for keeper in self._keepers)
        status = FleetStatus(os.getpid(), time.time(), replicas, self._ended)
        try:
            atomic_write(status_path(self._run), msgspec.json.encode(status), durable=False)
        except NodeError as error:  # a full disk is no reason to stop replicas that work
            self._journal.say("status not published", error=error.message)

    def _stop_all(self) -> None:
        """All at once: their graces run side by side."""
        living = [keeper.process for keeper in self._keepers if keeper.process]
        left = process.stop(lambda: [p for leader in living for p in process.session(leader)], GRACE)
        for keeper in self._keepers:
            keeper.stopped()
        left += self._sweep(set())
        self._publish()
        self._journal.say("supervisor ended", why=self._ended, unkillable=[p.pid for p in left])
        self._journal.close()


def _is_guard(pid: int) -> bool:
    return process.name(pid) == guard.NAME


def main(run: Path) -> int:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    async def supervise() -> int:
        return await Supervisor(run, read_plan(run)).run()

    try:
        with alone(supervisor_lock(run)):
            return asyncio.run(supervise())
    except SevenfoldError as error:
        print(error, file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
