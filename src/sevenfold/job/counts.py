"""How many rows stand where, in memory while a run works: the ledger's tally at the start, plus what came since."""

import threading
from collections import Counter

from sevenfold.ledger import Tally
from sevenfold.types import Outcome, Sample


class Counts:
    """Written by the sink's thread, read by the publisher's: one lock, held for an increment."""

    def __init__(self, tally: Tally | None = None) -> None:
        self._lock = threading.Lock()
        self.begin(tally or Tally())

    def begin(self, tally: Tally) -> None:
        self.done, self.failed = tally.rows_done, tally.rows_failed
        self.tokens = tally.completion_tokens
        self.verdicts: Counter[str] = Counter(tally.verdicts)
        self.failures: Counter[str] = Counter(tally.failure_kinds)

    def see(self, outcome: Outcome) -> None:
        with self._lock:
            if isinstance(outcome, Sample):
                self.done += outcome.turn + 1 == outcome.turns
                self.tokens += outcome.completion.usage.completion_tokens
                self.verdicts[outcome.verdict] += 1
            else:
                self.failed += 1
                self.failures[outcome.kind] += 1

    def reopen(self) -> None:
        """A failed row is asked again."""
        with self._lock:
            self.failed -= 1

    @property
    def ended(self) -> int:
        return self.done + self.failed

    @property
    def flagged(self) -> int:
        with self._lock:
            return sum(n for verdict, n in self.verdicts.items() if verdict != "ok")
