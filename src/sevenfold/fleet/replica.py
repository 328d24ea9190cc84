"""The life of one replica as a pure state machine: facts and the time go in, what to do next comes out.

    backoff -> starting -> warming -> ready <-> suspect -> (draining)
       ^          |           |         |          |
       +----------+-----------+---------+----------+  its process ended: again later, or failed for good

A load may take as long as it likes while the log grows. No clock, no I/O: `now` is any clock that never goes back.
"""

from dataclasses import dataclass, field
from enum import Enum

from sevenfold.engines.base import Diagnosis
from sevenfold.types import ReplicaPhase

LONGEST = 60.0
"""Seconds between two starts at most: 1, 2, 4, ... up to this."""
SLOW_FIRST, SLOW_LONGEST = 10.0, 300.0
"""The same for engines whose start costs minutes of a GPU: 10, 20, 40, ... as container platforms do it."""
STILL = 300.0
"""Seconds that a warming replica may stand still: a first batch compiles kernels for 90 s and more."""
WARM = 900.0
"""Seconds of warming in all: its log grows by our own questions too."""
GOOD = 600.0
"""Seconds of readiness after which earlier deaths are forgotten."""
FIRST_TRIES = 3
"""Deaths before it was ever ready: what did not start three times will not."""
RESTARTS, WINDOW = 5, 600.0
"""Restarts within so many seconds: more is a replica that only burns its rows."""


class Next(Enum):
    """What the supervisor is to do now."""

    WAIT = "wait"
    START = "start"
    KILL = "kill"


@dataclass(slots=True)
class Life:
    start_timeout: float
    now: float
    """The time of the last fact."""
    slow: bool = False
    """Starting it costs minutes."""
    phase: ReplicaPhase = "backoff"
    reason: str = ""
    restarts: int = 0
    since: float = field(init=False)
    """When this phase began."""
    start_at: float = field(init=False)
    """While in backoff: when to start."""
    heard: float = 0.0
    """When it last showed life."""
    _ever_ready: bool = False
    _ready_since: float = 0.0
    _deaths: list[float] = field(default_factory=list[float])

    def __post_init__(self) -> None:
        self.since = self.start_at = self.now

    def tick(self, now: float) -> Next:
        self.now = now
        if self.phase == "backoff" and now >= self.start_at:
            return Next.START
        silent = now - self.heard
        if self.phase == "starting" and silent > self.start_timeout:
            return Next.KILL
        if self.phase == "warming" and (silent > min(STILL, self.start_timeout) or now - self.since > WARM):
            return Next.KILL
        return Next.WAIT

    def spawned(self, now: float) -> None:
        self.heard = now
        self._enter("starting", now)

    def moved(self, now: float) -> None:
        """Its log grew, or its token counter."""
        self.now = self.heard = now

    def warms(self, now: float) -> None:
        """It has loaded, is who it should be, and gets its first questions."""
        if self.phase == "starting":
            self.heard = now
            self._enter("warming", now)

    def doubted(self, now: float) -> None:
        if self.phase == "ready":
            self._enter("suspect", now)

    def trusted(self, now: float) -> None:
        if self.phase == "suspect":
            self._enter("ready", now)

    def drains(self, now: float) -> None:
        if self.phase in ("ready", "suspect"):
            self._enter("draining", now)

    @property
    def ever_ready(self) -> bool:
        return self._ever_ready

    def answered_first_completion(self, now: float) -> None:
        self._ever_ready = True
        self._ready_since = now
        self.reason = ""
        self._enter("ready", now)

    def exited(self, now: float, diagnosis: Diagnosis) -> None:
        """Its process ended, or could not be started."""
        if self.phase in ("ready", "suspect", "draining") and now - self._ready_since >= GOOD:
            self._deaths.clear()
        self._deaths.append(now)
        self.reason = f"{diagnosis.cause}; {diagnosis.remedy}" if diagnosis.remedy else diagnosis.cause
        if self._is_hopeless(now, diagnosis.retry):
            self._enter("failed", now)
            return
        self.restarts += 1
        first, longest = (SLOW_FIRST, SLOW_LONGEST) if self.slow else (1.0, LONGEST)
        self.start_at = now + min(longest, first * 2.0 ** (len(self._deaths) - 1))
        self._enter("backoff", now)

    def condemned(self, now: float, diagnosis: Diagnosis) -> None:
        """Another start would end the same way, or must not be: it is unlike the others, or cannot be killed."""
        self.reason = f"{diagnosis.cause}; {diagnosis.remedy}"
        self._enter("failed", now)

    def left(self, now: float, stays_down: bool) -> None:
        """It was stopped because somebody asked for it: no death of its own."""
        self.reason = "stopped on request" if stays_down else "restarted on request"
        self.restarts += not stays_down
        self.start_at = now
        self._enter("stopped" if stays_down else "backoff", now)

    def stopped(self, now: float) -> None:
        """We stopped it. What failed stays failed."""
        if self.phase != "failed":
            self._enter("stopped", now)

    def _is_hopeless(self, now: float, retry: bool) -> bool:
        if not self._ever_ready:
            return not retry or len(self._deaths) >= FIRST_TRIES
        return sum(now - death < WINDOW for death in self._deaths) > RESTARTS

    def _enter(self, phase: ReplicaPhase, now: float) -> None:
        self.phase, self.since, self.now = phase, now, now
