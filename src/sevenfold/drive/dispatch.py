"""The dispatcher: questions in, answers out, through whatever endpoints there are at the moment.

What it promises: every Ask that it takes in reaches the sink exactly once, as Answer or as Failure, unless the run
ends early. A requeue never waits: the line inside the house has no bound, what is bounded is who may come in; a place
is given back when the sink has returned. It knows nothing of files, verdicts and processes.
"""

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

import aiohttp
import msgspec

from sevenfold.config import RunSpec
from sevenfold.drive.limit import Deadline, Limit, Patience, Station
from sevenfold.drive.question import question
from sevenfold.drive.retry import Row
from sevenfold.drive.wire import complete, open_session
from sevenfold.engines import ENGINES
from sevenfold.errors import AttemptError, FleetError, ReplicaError, RequestError, RowError
from sevenfold.events import SILENT, Journal
from sevenfold.render import Renderer
from sevenfold.types import Ask, Completion, Endpoint, Failure

BATCH = 256
"""Answers per call of the sink at most: one fsync for so many costs next to nothing each."""

LINGER = 0.25
"""Seconds an answer waits for others to share a commit: what a crash can cost on top of what is in flight."""

AHEAD = 1.25
"""Rows inside per slot: enough that a slot that falls free finds one waiting."""

LOOK = 64
"""Rows at the head of the line that are tried for an endpoint: behind so many that may not go, others wait too."""


class Answer(msgspec.Struct, frozen=True):
    ask: Ask
    completion: Completion
    replica: str
    attempts: int
    """1 where the first request brought it; requests that only a replica failed do not count."""
    seconds: float
    """From the request that brought it."""


class Facts(msgspec.Struct, frozen=True):
    """Where the work stands. Counts are since the start."""

    in_flight: int = 0
    by_replica: dict[str, int] = {}
    """In flight, per endpoint."""
    waiting: int = 0
    answered: int = 0
    failed: int = 0
    charged: int = 0
    """Attempts charged to rows that were asked again."""
    requeued: int = 0
    """Requests that a replica failed or that were called back: their rows were asked again at no charge."""


Outcomes = list[Answer | Failure]
Sink = Callable[[Outcomes], list[Ask]]
"""Runs in a worker thread, one batch at a time. What it returns (next turns) goes to the head of the line and keeps
its place. What it raises ends the run."""


class Dispatcher:
    def __init__(
        self,
        spec: RunSpec,
        sink: Sink,
        journal: Journal = SILENT,
        patience: Patience | None = None,
        renderer: Renderer | None = None,
    ) -> None:
        patience = patience or Patience()
        self._spec, self._sink, self._journal, self._renderer = spec, sink, journal, renderer
        self._patience = patience
        self._endpoints: tuple[Endpoint, ...] = ()
        self._limit = Limit(patience, random.random)
        self._deadline = Deadline(patience)
        self._line: deque[Row] = deque()
        self._flights: dict[asyncio.Task[None], tuple[Row, Station]] = {}
        self._outcomes: Outcomes = []
        self._inside = 0
        self._stopping = False
        self._turn = asyncio.Event()
        """Something changed that may let a row go."""
        self._room = asyncio.Event()
        """A place may have become free."""
        self._some = asyncio.Event()
        """Outcomes wait for the sink..."""
        self._flush = asyncio.Event()
        """...and need not wait for more."""
        self._heard = 0.0
        """When an endpoint last did what it is there for, on the loop's clock."""
        self._last_refusal = ""
        self._answered = self._failed = self._charged = self._requeued = 0

    def set_endpoints(self, endpoints: Sequence[Endpoint]) -> None:
        """The endpoints from now on, as often as you like: the same ones change nothing. What is in flight on one that
        is gone is called back and asked elsewhere."""
        if tuple(endpoints) == self._endpoints:
            return
        self._endpoints = tuple(endpoints)
        self._limit.set(endpoints)
        for lane, (_, station) in self._flights.items():
            if not self._limit.holds(station):
                lane.cancel()
        self._journal.say("endpoints", replicas=[endpoint.replica for endpoint in endpoints])
        self._heard = self._now()
        self._turn.set()
        self._room.set()

    def stop(self) -> None:
        """Takes nothing new in and lets what is in flight come home; then `run` returns."""
        self._stopping = True
        self._turn.set()
        self._room.set()

    def facts(self) -> Facts:
        return Facts(
            in_flight=len(self._flights),
            by_replica=self._limit.in_flight,
            waiting=len(self._line),
            answered=self._answered,
            failed=self._failed,
            charged=self._charged,
            requeued=self._requeued,
        )

    async def run(self, asks: AsyncIterator[Ask]) -> None:
        """Ends when `asks` is exhausted, or after `stop`, with every row inside handed to the sink.

        Raises a group with ConfigError (an endpoint refuses us for good), FleetError (no endpoint answers any more)
        or whatever the sink raises; nothing is in flight then."""
        self._heard = self._now()
        async with open_session(self._spec.fleet.api_key) as session, asyncio.TaskGroup() as tasks:
            feeding = tasks.create_task(self._feed(asks))
            feeding.add_done_callback(lambda _: self._turn.set())
            emitting = tasks.create_task(self._emit())
            while not (feeding.done() and self._inside == 0):
                if self._stopping:
                    if not feeding.cancelling():
                        feeding.cancel()
                    self._inside -= len(self._line)
                    self._line.clear()
                while (start := self._next()) is not None:
                    lane = tasks.create_task(self._lane(session, *start))
                    self._flights[lane] = start
                    lane.add_done_callback(self._left)
                await self._changed()
            emitting.cancel()

    async def _feed(self, asks: AsyncIterator[Ask]) -> None:
        try:
            async for ask in asks:
                while self._inside >= self._limit.slots * AHEAD + BATCH:
                    self._room.clear()
                    await self._room.wait()
                self._inside += 1
                self._line.append(Row(ask))
                self._turn.set()
        finally:
            if isinstance(asks, AsyncGenerator):  # else the loop closes it, in a task that nobody owns
                await asks.aclose()

    async def _changed(self) -> None:
        """Until something may let a row go, or let the run end."""
        if self._some.is_set() and not self._flights and not self._line:
            self._flush.set()  # nothing will join the answers that wait
        now = self._now()
        if self._limit.all_fail and now - self._heard > self._patience.fleet:
            raise FleetError(
                f"no endpoint answers for {self._patience.fleet:.0f} s: {self._last_refusal}",
                "see sevenfold status and the servers' logs; resume goes on where this run ended",
            )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limit.next_opening(now)):
                await self._turn.wait()
        self._turn.clear()

    def _next(self) -> tuple[Row, Station] | None:
        """A row that may go now, and where to."""
        if self._stopping:
            return None
        now = self._now()
        for place in range(min(len(self._line), LOOK)):
            row = self._line[place]
            station = self._limit.take(now, row.tried)
            if station is not None:
                del self._line[place]
                return row, station
            if not row.tried:
                return None
        return None

    async def _lane(self, session: aiohttp.ClientSession, row: Row, station: Station) -> None:
        """One request after the other, while there are rows that may go: a new task for each would be work for
        nothing."""
        me = asyncio.current_task()
        assert me is not None
        await self._fly(session, row, station)
        while (start := self._next()) is not None:
            self._flights[me] = start
            await self._fly(session, *start)

    async def _fly(self, session: aiohttp.ClientSession, row: Row, station: Station) -> None:
        sent = self._now()
        endpoint = station.endpoint
        try:
            asked = question(row.ask, self._spec, endpoint.model, self._renderer)
            seconds = self._deadline.seconds(asked.sampling.max_tokens)
            completion = await complete(session, endpoint, ENGINES[endpoint.engine], asked, seconds)
        except RequestError as error:
            self._trouble(row, station, error, sent)
        else:
            took = self._now() - sent
            self._works(station)
            self._deadline.observe(took, completion.usage.completion_tokens)
            self._answered += 1
            self._deliver(Answer(row.ask, completion, endpoint.replica, row.attempts + 1, took))

    def _trouble(self, row: Row, station: Station, error: RequestError, sent: float) -> None:
        now, replica = self._now(), station.endpoint.replica
        if isinstance(error, RowError):
            self._works(station)
        elif isinstance(error, ReplicaError):
            if not station.is_failing:
                self._journal.say("endpoint refuses", replica=replica, kind=error.kind, reason=error.message)
            self._limit.refused(station, sent, now, error.retry_after)
            self._last_refusal = error.message
        else:
            self._limit.erred(station, now)
            self._last_refusal = error.message
        failure = row.fail(error, replica)
        facts = {"key": row.ask.prompt.key, "replica": replica, "kind": error.kind, "reason": error.message}
        if failure is not None:
            self._failed += 1
            self._journal.say("row failed", **facts)
            self._deliver(failure)
            return
        if isinstance(error, AttemptError):
            self._charged += 1
            self._journal.say("attempt failed", **facts)
        else:
            self._requeued += 1
        self._line.appendleft(row)
        self._turn.set()

    def _works(self, station: Station) -> None:
        if station.is_failing:
            self._journal.say("endpoint works again", replica=station.endpoint.replica)
        self._limit.answered(station)
        self._heard = self._now()

    def _left(self, lane: asyncio.Task[None]) -> None:
        row, station = self._flights.pop(lane)
        if lane.cancelled():  # called back, perhaps before it set out: then no line of its own ever ran
            self._limit.dropped(station)
            self._requeued += 1
            self._line.appendleft(row)
        self._turn.set()

    def _deliver(self, outcome: Answer | Failure) -> None:
        self._outcomes.append(outcome)
        self._some.set()
        if len(self._outcomes) >= BATCH:
            self._flush.set()

    async def _emit(self) -> None:
        while True:
            await self._some.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LINGER):
                    await self._flush.wait()
            batch, self._outcomes = self._outcomes[:BATCH], self._outcomes[BATCH:]
            if not self._outcomes:
                self._some.clear()
            if len(self._outcomes) < BATCH:
                self._flush.clear()
            self._come_back(batch, await _to_the_end(self._sink, batch))

    def _come_back(self, batch: Outcomes, follow_ups: list[Ask]) -> None:
        if self._stopping:
            follow_ups = []
        self._inside += len(follow_ups) - len(batch)
        self._line.extendleft(Row(ask) for ask in reversed(follow_ups))
        self._room.set()
        self._turn.set()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


async def _to_the_end(sink: Sink, batch: Outcomes) -> list[Ask]:
    """Also when cancelled: a commit that has begun is over before the caller closes its ledger."""
    work = asyncio.get_running_loop().run_in_executor(None, sink, batch)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise
