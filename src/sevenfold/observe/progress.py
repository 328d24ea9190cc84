"""Rates and the time left, from counts over time; and one line that says so. Pure: the caller brings the clock."""

from collections import deque
from dataclasses import dataclass

WINDOW = 60.0
"""Seconds of the short rate: long enough to hold several replies of 2,000 tokens, short enough to show a stall."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the run stands. Rates per second; `eta` in seconds from now as (soonest, latest), None while unknown."""

    done: int
    failed: int
    total: int
    rows_per_second: float
    tokens_per_second: float
    tokens_per_second_whole: float
    eta: tuple[float, float] | None


class Pace:
    """Turns counts into rates over the last minute and over this process's whole work."""

    def __init__(self, now: float, done: int, tokens: int) -> None:
        self._marks: deque[tuple[float, int, int]] = deque([(now, done, tokens)])
        self._start = (now, done, tokens)

    def mark(self, now: float, done: int, failed: int, total: int, tokens: int) -> Progress:
        """`done` and `failed` count rows, `tokens` completion tokens, all since the beginning of the run."""
        ended = done + failed
        self._marks.append((now, ended, tokens))
        while len(self._marks) > 2 and self._marks[1][0] <= now - WINDOW:
            self._marks.popleft()
        rows, rate = _slope(self._marks[0], self._marks[-1])
        rows_whole, rate_whole = _slope(self._start, self._marks[-1])
        left = max(0, total - ended)
        speeds = sorted(speed for speed in (rows, rows_whole) if speed > 0)
        eta = (left / speeds[-1], left / speeds[0]) if speeds and total else None
        return Progress(done, failed, total, rows, rate, rate_whole, eta)


def _slope(then: tuple[float, int, int], now: tuple[float, int, int]) -> tuple[float, float]:
    seconds = now[0] - then[0]
    if seconds <= 0:
        return 0.0, 0.0
    return (now[1] - then[1]) / seconds, (now[2] - then[2]) / seconds


def duration(seconds: float) -> str:
    """'42s', '3m10s', '5h02m', '3d04h'."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, second = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{second:02d}s"
    hours, minute = divmod(minutes, 60)
    return f"{hours}h{minute:02d}m" if hours < 24 else f"{hours // 24}d{hours % 24:02d}h"


def eta_words(eta: tuple[float, float] | None) -> str:
    if eta is None:
        return "ETA unknown"
    soonest, latest = duration(eta[0]), duration(eta[1])
    return f"ETA {soonest}" if soonest == latest else f"ETA {soonest}-{latest}"


def line(progress: Progress, in_flight: int, ready: int, replicas: int, flagged: int) -> str:
    """One line, at most about 110 columns."""
    total = f"{progress.total:,}" if progress.total else "?"
    parts = [
        f"{progress.done + progress.failed:,}/{total} rows",
        f"{progress.rows_per_second:.1f} rows/s",
        f"{progress.tokens_per_second:,.0f} tok/s",
        eta_words(progress.eta),
        f"{in_flight} in flight",
        f"replicas {ready}/{replicas}",
    ]
    if progress.failed:
        parts.append(f"{progress.failed:,} failed")
    if flagged:
        parts.append(f"{flagged:,} flagged")
    return " · ".join(parts)
