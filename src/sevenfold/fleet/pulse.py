"""Takes a ready replica's pulse: reads its metrics and its log, asks a completion of its own where those leave a doubt.

One metrics request and one completion are outstanding at most; nothing here is on the path of a row.
"""

import asyncio
import re
import time
from collections.abc import Callable, Generator
from pathlib import Path

import msgspec

from sevenfold.engines.base import Engine, Load, Question, Reply, Request
from sevenfold.errors import AttemptError, ConfigError, ReplicaError, RowError
from sevenfold.fleet.http import carry
from sevenfold.fleet.liveness import LONGEST, Facts, Verdict, Watch
from sevenfold.node import process

POLL = 2.0
"""Seconds between two looks: a tenth of the patience would do, metrics of a large server cost it milliseconds."""
METRICS = 5.0
"""Seconds for /metrics: it is served by the process that takes the requests, which is never busy for so long."""
FRESH = 5.0
"""Seconds for which the drive's last word, given once a second, is believed."""
DRAIN = 600.0
"""Seconds for requests in flight to end: the longest generations take minutes."""
HEARD = 2.5
"""Seconds until nobody sends anything new: the drive follows within one and speaks once a second."""
LOOK = 0.2
"""Seconds between looks at one that drains."""
CORES = 0.1
"""Processors in use from which on an engine without a GPU is at work: seven on two cores get a third of one each."""
COMPILERS = frozenset({"nvcc", "cicc", "ptxas", "ninja", "cudafe++", "fatbinary", "cc1plus", "nvlink"})
WORK = re.compile(rb"Decode batch|Prefill batch|print_timing|launch_slot_")
"""In log lines of SGLang's scheduler and of llama.cpp's slots. SGLang 0.5.11 counts tokens only when a request ends."""


class _Drive(msgspec.Struct, frozen=True):
    """What of the drive's own status matters here."""

    at: float = 0.0
    in_flight_by_replica: dict[str, int] = {}


class Pulse:
    """`question`: a short one that the replica has answered already. `log_from`: where this start's log begins."""

    def __init__(self, engine: Engine, url: str, question: Question, leader: process.Identity, watch: Watch) -> None:
        self.watch = watch
        self.read: Callable[[Load], None] = lambda _load: None
        """Hears what the metrics say."""
        self._engine, self._url, self._question, self._leader = engine, url, question, leader
        self._every = min(POLL, watch.patience / 10)
        self._answered = 0
        self._asked: float | None = None
        self._burnt: tuple[float, float] | None = None

    async def until_hung(self, log: Path, drive: Path, name: str, tell: Callable[[Verdict], None]) -> str:
        """The sentence that says what stands still."""
        lines = Lines(log)
        async with asyncio.TaskGroup() as tasks:
            probe: asyncio.Task[None] | None = None
            while True:
                load = await read_load(self._engine, self._url, min(METRICS, self.watch.patience / 4))
                mute, load = load is None, load or Load()
                self.read(load)
                facts = Facts(
                    now=time.monotonic(),
                    mute=mute,
                    tokens=load.tokens,
                    running=None if load.running is None else load.running + (load.queued or 0),
                    in_flight=in_flight(drive, name),
                    lines=lines.seen(),
                    answered=self._answered,
                    asked=self._asked,
                    computes=self.watch.doubts and await asyncio.to_thread(self._computes),
                )
                verdict = self.watch.see(facts)
                tell(verdict)
                if verdict == "hung":
                    if probe:
                        probe.cancel()
                    return describe(facts, self.watch.quiet)
                if self.watch.doubts and (probe is None or probe.done()):
                    probe = tasks.create_task(self._probe())
                await asyncio.sleep(self._every)

    async def _probe(self) -> None:
        self._asked = self._asked or time.monotonic()
        question = self._engine.exchange(self._question)
        try:
            await carry(self._url, question, 2 * LONGEST * self.watch.patience)
        except (ReplicaError, AttemptError, RowError, ConfigError):
            return  # no answer: `_asked` still runs
        self._answered += 1
        self._asked = None

    def _computes(self) -> bool:
        now, use = time.monotonic(), process.use(self._leader)
        before, self._burnt = self._burnt, (now, use.cpu_seconds)
        if use.names & COMPILERS:
            return True
        if use.has_gpu or before is None or now <= before[0]:
            return False
        return (use.cpu_seconds - before[1]) / (now - before[0]) >= CORES


class Lines:
    """Counts the log's lines of work, reading each byte once."""

    def __init__(self, log: Path) -> None:
        self._log, self._count = log, 0
        self._at = log.stat().st_size if log.exists() else 0

    def seen(self) -> int:
        try:
            with self._log.open("rb") as file:
                file.seek(self._at)
                added = file.read(1 << 20)
        except OSError:
            return self._count
        self._at += len(added)
        self._count += len(WORK.findall(added))
        return self._count


async def read_load(engine: Engine, url: str, seconds: float = METRICS) -> Load | None:
    """Nothing known where it has no metrics; None where it has and does not answer."""
    path = engine.metrics_path
    if path is None:
        return Load()

    def look() -> Generator[Request, Reply, Reply]:
        return (yield Request(path))

    try:
        reply = await carry(url, look(), seconds)
    except (ReplicaError, AttemptError):
        return None
    return engine.load(reply.body.decode(errors="replace")) if reply.status == 200 else Load()


async def until_empty(engine: Engine, url: str, drive: Path, name: str, patience: float) -> None:
    """Until nothing is in flight on a replica that gets nothing new, by the drive's account or its own; for DRAIN
    seconds at most, or until its tokens stand still for `patience`: gauges stay up after the last request."""
    load = await read_load(engine, url) or Load()
    if in_flight(drive, name) is None and not load.running:
        return
    await asyncio.sleep(HEARD)
    began = still = time.monotonic()
    tokens = load.tokens
    while time.monotonic() < min(began + DRAIN, still + patience):
        load = await read_load(engine, url) or Load()
        if load.tokens != tokens:
            still, tokens = time.monotonic(), load.tokens
        sent = in_flight(drive, name)
        if not (load.running if sent is None else sent):
            return
        await asyncio.sleep(LOOK)


def in_flight(drive: Path, name: str) -> int | None:
    """By the drive's own status in the same folder; None where no drive speaks."""
    try:
        said = msgspec.json.decode(drive.read_bytes(), type=_Drive)
    except (OSError, msgspec.DecodeError):
        return None
    return said.in_flight_by_replica.get(name, 0) if time.time() - said.at < FRESH else None


def describe(facts: Facts, quiet: float) -> str:
    running = "it does not say how many run" if facts.running is None else f"{facts.running} running by its own account"
    sent = "" if facts.in_flight is None else f", {facts.in_flight} in flight to it"
    return f"hung: nothing moved for {quiet:.0f} s ({running}{sent}), and a request of ours stayed unanswered"
