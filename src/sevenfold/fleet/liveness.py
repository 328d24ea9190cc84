"""Whether a ready replica still works: facts and the time go in; ok, suspect or hung comes out. No clock, no I/O.

Hung means: for `patience` seconds nothing moved although a request is in flight, and a completion of our own stays
unanswered. /health is not asked: engines answer it with a dead scheduler, and refuse it in a long prefill. A gauge
alone says nothing: SGLang's running requests stand at 16 long after a run, and vLLM's read 0 in a wedge. What is idle,
busy, compiling or merely slow is never hung.
"""

from collections import deque
from typing import Literal

import msgspec

PATIENCE = 30.0
"""Seconds without progress: three times the ten seconds that container platforms give a probe."""
FIRST = 6
"""Times the patience while it is new to its work: the first full batches of SGLang 0.5.11 stalled for 91 to 150 s on an
H200 while kernels were compiled, after single requests had been answered at once."""
FAMILIAR = 20
"""Signs of progress under load after which it is new no more: at three seconds a look about a minute of work."""
LONGEST = 10
"""Times the patience where it visibly computes, or where no counter can be read: SGLang's own watchdog waits 300 s."""
GAPS = 512
"""Gaps between two signs of progress that are remembered."""
SLACK = 3.0
"""Times the 99th percentile of those gaps, where that is more than the patience."""

Verdict = Literal["ok", "suspect", "hung"]


class Facts(msgspec.Struct, frozen=True):
    now: float
    tokens: int | None = None
    """Read and generated so far; None where its metrics do not say or do not answer."""
    mute: bool = False
    """It has metrics, and they do not answer."""
    running: int | None = None
    """Running and queued, by its own account."""
    in_flight: int | None = None
    """By the account of the drive that uses it."""
    lines: int = 0
    """Log lines so far that only working engines write."""
    answered: int = 0
    """Our own completions that came back."""
    asked: float | None = None
    """Since when one of our own has no answer; None where none is out."""
    computes: bool = False
    """A compiler runs in its session, or, without a GPU, its processors work."""


class Watch:
    """`fresh`: it may still have kernels to compile, and its first stillness is borne longer."""

    def __init__(self, patience: float = PATIENCE, fresh: bool = True) -> None:
        self.patience = patience
        self._last: Facts | None = None
        self._tokens: int | None = None
        self._moved_at = self._proved_at = 0.0
        self._signs = 0 if fresh else FAMILIAR
        """Of progress under load since it became ready."""
        self._gaps: deque[float] = deque(maxlen=GAPS)

    def see(self, facts: Facts) -> Verdict:
        if self._last is None:
            self._moved_at = self._proved_at = facts.now
        elif self._has_moved(facts, self._last):
            if self._is_busy(self._last):
                self._gaps.append(facts.now - self._moved_at)
                self._signs += 1
            self._moved_at = self._proved_at = facts.now
        elif not self._is_busy(facts):
            self._moved_at = facts.now
        self._last = facts
        self._tokens = self._tokens if facts.tokens is None else facts.tokens
        quiet, limit = self.quiet, self._limit(facts)
        if quiet < limit / 2:
            return "ok"
        # One refused or just sent request is no proof.
        proven = facts.asked is not None and facts.now - facts.asked >= self.patience / 4
        return "hung" if quiet >= limit and proven else "suspect"

    @property
    def quiet(self) -> float:
        """Seconds without progress while something is in flight."""
        return self._last.now - self._moved_at if self._last else 0.0

    @property
    def doubts(self) -> bool:
        """Whether a completion of our own should be out: nothing else would tell."""
        if self._last is None:
            return False
        unproved = self._last.now - self._proved_at
        return self.quiet >= self.patience / 3 or (self._last.in_flight is None and unproved >= 2 * self.patience)

    def _has_moved(self, facts: Facts, last: Facts) -> bool:
        counted = facts.tokens is not None and facts.tokens != self._tokens and self._tokens is not None
        return counted or facts.lines != last.lines or facts.answered != last.answered

    def _is_busy(self, facts: Facts) -> bool:
        """Or cannot be said not to be: metrics that stopped answering are no rest."""
        if facts.asked is not None or facts.in_flight or facts.running:
            return True
        return facts.mute or (facts.running is None and self._tokens is not None)

    def _limit(self, facts: Facts) -> float:
        if facts.computes or (self._tokens is None and not facts.mute):
            return LONGEST * self.patience
        if self._signs < FAMILIAR:
            return FIRST * self.patience
        gaps = sorted(self._gaps)
        usual = gaps[int(0.99 * (len(gaps) - 1))] if gaps else 0.0
        return min(max(self.patience, SLACK * usual), LONGEST * self.patience)
