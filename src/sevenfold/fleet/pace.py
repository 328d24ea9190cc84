"""Which replica is slow beside the others: counters and the time go in, names come out. No clock, no I/O.

Heat, a failing memory, a neighbour on the host: the replica works, half as fast. It is flagged, never stopped. Tokens
per second are counted per running request, so that one that got fewer rows is not slow.
"""

from collections import deque
from collections.abc import Mapping
from statistics import median

from sevenfold.engines.base import Load

WINDOW = 300.0
"""Seconds over which it must stay behind: a long prefill or a burst of short rows is over in less."""
SHARE = 0.5
"""Of the others' median, below which it is slow: replicas of one launch differ by a tenth."""


class Pace:
    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[float, int, int]]] = {}

    def see(self, now: float, loads: Mapping[str, Load]) -> dict[str, str]:
        """What every replica's metrics say now; by name, how slow a slow one is. A replica that is left out, idle or
        started anew (its counter fell) begins its window again."""
        for name in self._seen.keys() - loads.keys():
            del self._seen[name]
        for name, load in loads.items():
            self._note(now, name, load)
        speeds = {name: speed for name in self._seen if (speed := self._speed(name)) is not None}
        slow: dict[str, str] = {}
        for name, speed in speeds.items():
            usual = median([other for peer, other in speeds.items() if peer != name] or [0.0])
            if speed < SHARE * usual:
                slow[name] = f"slow: {speed:.1f} tokens/s per request, the others {usual:.1f}: see its GPU's clocks"
        return slow

    def _note(self, now: float, name: str, load: Load) -> None:
        seen = self._seen.setdefault(name, deque())
        if not load.running or load.tokens is None or (seen and load.tokens < seen[-1][1]):
            seen.clear()
            return
        seen.append((now, load.tokens, load.running))
        while len(seen) > 2 and seen[1][0] <= now - WINDOW:
            seen.popleft()

    def _speed(self, name: str) -> float | None:
        """Tokens per second and running request over a whole window; None before."""
        seen = self._seen[name]
        if not seen or seen[-1][0] - seen[0][0] < WINDOW:
            return None
        running = sum(one[2] for one in seen) / len(seen)
        return (seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0]) / running
