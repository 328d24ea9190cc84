"""The rule that stops a run while little is spent: a flag's share is surely over its limit.

Sequential: it may look after every row without ever stopping by chance a run whose true share is within the limit.
Replies come back shortest first, so the first rows of a run hold the bad short ones of everything in flight: a share is
believed early only where nearly all rows are bad. Counts what it is shown; knows nothing of rows of earlier sittings.
"""

import math
from collections import Counter

from sevenfold.audit.checks import CHECKS, Rules, meaning
from sevenfold.errors import GateError
from sevenfold.types import Sample

EARLY = 50
"""Rows after which a run that is bad through and through stops."""
THROUGH_AND_THROUGH = 0.8
"""With 1,024 rows in flight and half of a 5% limit bad, all 26 bad ones among the first 50 are 52%."""
FULL = 200
"""Rows after which any share is believed that chance does not explain."""
FEWEST = 20
"""Rows below which the final share says nothing."""
DOUBT = math.log(1e6)
"""A run exactly at its limit stops by chance once in a million."""


class Gate:
    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._rows = 0
        self._flagged: Counter[str] = Counter()

    def observe(self, sample: Sample) -> None:
        """GateError, naming the gravest flag, as soon as the evidence is clear."""
        self._rows += 1
        for name in sample.flags:
            self._flagged[name] += 1
        if self._rows >= EARLY:
            for name in sample.flags:
                if self._is_clear(name):
                    raise self._error(name)

    def verdict_at_end(self) -> GateError | None:
        """The gravest flag whose share of all rows is over its limit, in runs of at least 20 rows."""
        if self._rows < FEWEST:
            return None
        over = (name for name in CHECKS if self._flagged[name] > self._rules.limits[name] * self._rows)
        return next((self._error(name) for name in over), None)

    def _is_clear(self, name: str) -> bool:
        limit, share = self._rules.limits.get(name, 1.0), self._flagged[name] / self._rows
        if share <= limit or (self._rows < FULL and share < THROUGH_AND_THROUGH):
            return False
        # Likelihood ratio of the share seen against the limit, less the price of having chosen the share afterwards
        # and of looking at every row (Ville's inequality with a Beta(1/2, 1/2) mixture).
        return self._rows * divergence(share, limit) > DOUBT + 0.5 * math.log(self._rows) + math.log(2)

    def _error(self, name: str) -> GateError:
        share, limit = self._flagged[name] / self._rows, self._rules.limits[name]
        says = meaning(name, self._rules)
        return GateError(
            f"{percent(share)} of {self._rows:,} rows are {name} "
            f"(limit {percent(limit)}): {says[:1].lower()}{says[1:].rstrip('.')}",
            f"look at them with `sevenfold audit`; where they are as they should be, raise judge.limits.{name}",
        )


def divergence(share: float, limit: float) -> float:
    """Kullback-Leibler divergence of two coins, in nats, where share > limit."""
    if limit == 0:
        return math.inf
    heads = share * math.log(share / limit)
    tails = (1 - share) * math.log((1 - share) / (1 - limit)) if share < 1 else 0.0
    return heads + tails


def percent(share: float) -> str:
    """'5%', '5.3%', '0.25%': whole where it is whole."""
    return f"{share * 100:.3g}%"
