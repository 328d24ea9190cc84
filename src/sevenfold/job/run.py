"""One run from prompts to ledger: the only place where fleet, drive, sources, ledger and audit meet.

What it promises: every accepted row ends in the ledger as sample or failure, or the run says that it did not end.
It owns every task and process it starts, and leaves none behind, however it ends.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from sevenfold import fleet
from sevenfold.audit import Gate, Judge, rules
from sevenfold.drive import Dispatcher, Facts
from sevenfold.errors import FleetError, SevenfoldError
from sevenfold.events import Journal
from sevenfold.job.canary import complaints, require_some
from sevenfold.job.counts import Counts
from sevenfold.job.ending import Ending, ending
from sevenfold.job.feed import Feed
from sevenfold.job.planning import launch_plan
from sevenfold.job.prepare import Prepared
from sevenfold.job.publish import DriveStatus, publish
from sevenfold.job.sink import Sink
from sevenfold.job.thinking import settle
from sevenfold.ledger import Reader, Tally, Writer
from sevenfold.node.process import Identity, identity
from sevenfold.observe.progress import Pace, Progress
from sevenfold.sources import Index
from sevenfold.types import FleetStatus, ReplicaStatus

GRACE = 30.0
"""Seconds that requests in flight get after the first signal: most replies end, and a Slurm warning is longer."""
BEAT = 1.0
"""Seconds between two publications of where the run stands."""

Beat = Callable[[Progress, "Regeneration"], None]
Phase = Literal["starting", "running", "draining", "ended"]


class Regeneration:
    """A prepared run being worked off. `stop` may be called from a signal handler: once drains, twice ends at once."""

    def __init__(self, prepared: Prepared, beat: Beat = lambda _progress, _run: None) -> None:
        self.prepared, self.folder, self.spec = prepared, prepared.folder, prepared.spec
        self.fleet = external(prepared)
        self.phase: Phase = "starting"
        self.index = Index(self.folder.index)
        self.reader = Reader(self.folder.path)
        self.counts = Counts()
        self._beat = beat
        self._journal = Journal(self.folder.events, "driver")
        self._feed = Feed(self.index, self.reader, prepared.inputs, self.spec.conversation, self.counts.reopen)
        self._dispatcher: Dispatcher | None = None
        self._ready = asyncio.Event()
        self._task: asyncio.Task[Ending] | None = None
        self._me: Identity = identity(os.getpid())

    async def run(self) -> Ending:
        """Ends with every row in the ledger, or raises the SevenfoldError that says why not."""
        self._task = asyncio.current_task()
        with Writer(self.folder.path) as writer:
            self._journal.say("run started", pid=self._me.pid, fingerprint=self.prepared.manifest.fingerprint)
            try:
                ended = await self._work(writer)
            except* SevenfoldError as group:
                error = first(group)
                self._say_ended(error.exit_code, error.message)
                raise error from None
            except* asyncio.CancelledError:
                self._say_ended(1, "ended at once, with requests in flight")
                raise
            self._say_ended(ended.exit_code, ended.sentence)
            return ended

    def stop(self) -> None:
        self._journal.say("stop asked", phase=self.phase)
        self._feed.stop()
        if self.phase == "draining" or self._dispatcher is None:
            self._abort()
            return
        self.phase = "draining"
        self._dispatcher.stop()
        asyncio.get_running_loop().call_later(GRACE, self._abort)

    @property
    def total(self) -> int:
        """Conversations to be asked for: accepted rows times samples; 0 while the inputs are still being counted."""
        return self.index.counts().rows * self.spec.conversation.samples if self.index.complete else 0

    @property
    def facts(self) -> Facts:
        return self._dispatcher.facts() if self._dispatcher else Facts()

    def _abort(self) -> None:
        if self._task and not self._task.done():
            self._task.cancel()

    async def _work(self, writer: Writer) -> Ending:
        turns = self.spec.conversation.turns
        current = await asyncio.to_thread(self.index.is_current, self.prepared.inputs, turns)
        if await self._is_over(current):
            return ending(self, None)  # nothing to ask: no replica is started for it
        if not current:
            await asyncio.to_thread(self.index.clear)  # the feed must not see the rows of other inputs
        ours = await self._start_fleet()
        try:
            async with asyncio.TaskGroup() as tasks:
                helpers = [tasks.create_task(work) for work in (self._follow(), self._publish())]
                if not current:
                    tasks.create_task(asyncio.to_thread(self._build_index))
                gate = await self._drive(writer)
                for task in helpers:
                    task.cancel()
            return ending(self, gate)
        finally:
            self._feed.stop()
            if ours:
                await asyncio.to_thread(fleet.stop, self.folder.path)

    async def _is_over(self, current: bool) -> bool:
        """Counts what the ledger holds and, where the index can be trusted, looks for what is still to be asked."""
        async with asyncio.TaskGroup() as tasks:
            counting = tasks.create_task(asyncio.to_thread(count, self.folder.path))
            looking = tasks.create_task(asyncio.to_thread(self._feed.is_over)) if current else None
        self.counts.begin(counting.result())
        return looking is not None and looking.result()

    async def _start_fleet(self) -> bool:
        """True where this run started replicas, so that they end with it."""
        model, folder = self.prepared.model, self.prepared.fleet
        if model is None or folder != self.folder.path:
            return False
        plan = await asyncio.to_thread(launch_plan, self.spec, model, folder, self._me, self.prepared.canary)
        return await asyncio.to_thread(fleet.start, folder, plan)

    async def _drive(self, writer: Writer) -> Gate:
        await self._ready.wait()
        thinking = await settle(self.fleet.endpoints[0], self.prepared)
        conversation = msgspec.structs.replace(self.spec.conversation, thinking=thinking)
        spec = msgspec.structs.replace(self.spec, conversation=conversation)
        limits = rules(self.spec.judge)
        gate = Gate(limits)
        sink = Sink(writer, Judge(limits), gate, thinking, self.counts.see)
        self._dispatcher = Dispatcher(spec, sink, self._journal, renderer=self.prepared.renderer)
        self._dispatcher.set_endpoints(self.fleet.endpoints)
        self.phase = "running"
        await self._dispatcher.run(self._feed.asks())
        return gate

    def _build_index(self) -> None:
        """In a worker thread, beside everything else: the feed follows it."""

        def tick(rows: int) -> None:
            if self._feed.stopped:
                raise InterruptedError(f"stopped after {rows} rows")

        try:
            self.index.build(self.prepared.inputs, self.spec.conversation.turns, tick)
        except InterruptedError:
            return
        counts = self.index.counts()
        self._journal.say("inputs read", rows=counts.rows, refused=counts.refused, twins=counts.twins)

    async def _follow(self) -> None:
        if self.prepared.endpoints:
            self._ready.set()
            await self._compare(self.prepared.canary)
            return
        async for status in fleet.follow(self.prepared.fleet):
            self.fleet = status
            if status.ended:
                raise FleetError(status.ended, f"sevenfold logs {self.prepared.fleet}")
            if self._dispatcher:
                self._dispatcher.set_endpoints(status.endpoints)
            if any(endpoint.slots for endpoint in status.endpoints):
                self._ready.set()

    async def _compare(self, canary: fleet.Canary) -> None:
        """Every hour, the endpoints of others: one that is unlike them gets nothing until it is like them again."""
        known: dict[str, str] = {}
        while canary.every:
            await asyncio.sleep(canary.every)
            wrong = await complaints(self.prepared.endpoints, canary, self.spec.fleet.api_key)
            for name in wrong.keys() - known.keys():
                self._journal.say("replica unlike the others", replica=name, why=wrong[name])
            known = wrong
            require_some(self.prepared.endpoints, wrong)
            self.fleet = external(self.prepared, wrong)
            if self._dispatcher:
                self._dispatcher.set_endpoints(self.fleet.endpoints)

    async def _publish(self) -> None:
        pace = Pace(time.monotonic(), self.counts.ended, self.counts.tokens)
        while True:
            counts = self.counts
            progress = pace.mark(time.monotonic(), counts.done, counts.failed, self.total, counts.tokens)
            self._say_status(progress)
            self._beat(progress, self)
            await asyncio.sleep(BEAT)

    def _say_status(self, progress: Progress) -> None:
        facts = self.facts
        status = DriveStatus(
            pid=self._me.pid,
            started=self._me.started,
            at=time.time(),
            phase=self.phase,
            in_flight=facts.in_flight,
            in_flight_by_replica=facts.by_replica,
            rows_per_second=round(progress.rows_per_second, 3),
            tokens_per_second=round(progress.tokens_per_second, 1),
            eta=progress.eta,
            requeued=facts.requeued,
            replicas=self.fleet.replicas,
        )
        publish(self.folder, status)

    def _say_ended(self, exit_code: int, sentence: str) -> None:
        self.phase = "ended"
        now = time.time()
        status = DriveStatus(
            pid=self._me.pid,
            started=self._me.started,
            at=now,
            phase="ended",
            exit_code=exit_code,
            sentence=sentence,
            replicas=self.fleet.replicas,
        )
        publish(self.folder, status)
        self._journal.say("run ended", exit_code=exit_code, sentence=sentence)


def count(run: Path) -> Tally:
    with Reader(run) as reader:  # a connection of its own: the feed's is busy
        return reader.tally()


def external(prepared: Prepared, wrong: Mapping[str, str] | None = None) -> FleetStatus:
    """The endpoints that somebody else started, as a fleet; empty where the replicas are ours. `wrong`: why some of
    them get nothing, by name."""
    now, wrong = time.time(), wrong or {}
    replicas = (
        ReplicaStatus(
            name=e.replica,
            phase="failed" if e.replica in wrong else "ready",
            url=e.url,
            model=e.model,
            engine=e.engine,
            slots=e.slots,
            since=now,
            reason=wrong.get(e.replica, ""),
        )
        for e in prepared.endpoints
    )
    return FleetStatus(0, now, tuple(replicas))


def first(group: BaseExceptionGroup[SevenfoldError]) -> SevenfoldError:
    """The first error of a group that may hold groups."""
    error = group.exceptions[0]
    return first(error) if isinstance(error, BaseExceptionGroup) else error
