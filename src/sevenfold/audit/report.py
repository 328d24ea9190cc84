"""What came out, in figures: lengths, flags, the most frequent answer, the worst samples of each flag.

One pass, and memory that does not grow with the rows: lengths are counted in bins (exact below 128, else within 1.6%),
answers by a bounded count that never counts too many.
"""

import heapq
from collections import Counter
from collections.abc import Iterable

import msgspec

from sevenfold.audit.checks import CHECKS, Rules, meaning
from sevenfold.audit.lengths import Length, length
from sevenfold.types import Failure, Sample

QUANTILES = (0, 1, 10, 50, 90, 99, 100)
"""Percent."""
WORST = 5
"""Samples kept per flag."""
EXCERPT = 160
"""Characters of an excerpt: two lines of a screen."""
ANSWERS = 10_000
"""Different answers counted at once: one that makes up more than 0.01% of all rows cannot be missed."""
SHORT_IS_WORST = frozenset({"trivial", "empty"})
"""Flags whose worst sample is the shortest; of the others it is the one that cost most tokens."""


class Flag(msgspec.Struct, frozen=True):
    """`share` of all rows with this flag, whatever else was said of them."""

    count: int
    share: float
    limit: float
    over: bool
    meaning: str


class Bin(msgspec.Struct, frozen=True):
    """Rows of `low` to `high` tokens, both included."""

    low: int
    high: int
    count: int


class Lengths(msgspec.Struct, frozen=True):
    """Tokens per row. `quantiles` by 'p0' ... 'p100'; bins double in width."""

    total: int
    mean: float
    quantiles: dict[str, int]
    histogram: tuple[Bin, ...]


class Modal(msgspec.Struct, frozen=True):
    """The most frequent answer: its first characters, and how many rows gave it (at least)."""

    text: str
    count: int
    share: float


class Bad(msgspec.Struct, frozen=True):
    """One flagged sample. `why` is what the check said."""

    key: str
    id: str | int | None
    sample: int
    turn: int
    tokens: int
    why: str
    excerpt: str
    file: str
    line: int


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """`estimated`: rows whose tokens are estimated from characters. `over`: flags over their limit, gravest first."""

    rows: int
    ok: int
    failures: int
    failure_kinds: dict[str, int]
    estimated: int
    flags: dict[str, Flag]
    reasoning: Lengths
    answer: Lengths
    modal: Modal | None
    worst: dict[str, tuple[Bad, ...]]
    over: tuple[str, ...]


class Report:
    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._rows = self._ok = self._estimated = 0
        self._failures: Counter[str] = Counter()
        self._flags: Counter[str] = Counter()
        self._reasoning, self._answer = Spread(), Spread()
        self._answers: Counter[tuple[int, str]] = Counter()
        self._worst: dict[str, list[tuple[int, int, Sample]]] = {}

    def add(self, sample: Sample) -> None:
        """Takes the flags as they stand."""
        self._rows += 1
        self._ok += not sample.flags
        size = length(sample.completion)
        self._estimated += size.estimated
        self._reasoning.add(size.reasoning)
        self._answer.add(size.answer)
        self._count_answer(sample.completion.answer.strip())
        for name in sample.flags:
            self._flags[name] += 1
            self._keep(name, sample, size)

    def add_failure(self, failure: Failure) -> None:
        self._failures[failure.kind] += 1

    def result(self) -> Audit:
        names = [*CHECKS, *sorted(self._flags.keys() - CHECKS.keys())]
        flags = {name: self._flag(name) for name in names}
        return Audit(
            rows=self._rows,
            ok=self._ok,
            failures=self._failures.total(),
            failure_kinds=dict(self._failures.most_common()),
            estimated=self._estimated,
            flags=flags,
            reasoning=self._reasoning.lengths(),
            answer=self._answer.lengths(),
            modal=self._modal(),
            worst={name: self._bad(name) for name in names if name in self._worst},
            over=tuple(name for name, flag in flags.items() if flag.over),
        )

    def _flag(self, name: str) -> Flag:
        count, limit = self._flags[name], self._rules.limits.get(name, 1.0)
        share = count / self._rows if self._rows else 0.0
        return Flag(count, share, limit, share > limit, meaning(name, self._rules))

    def _count_answer(self, text: str) -> None:
        if not text:
            return
        self._answers[(hash(text), text[:EXCERPT])] += 1
        if len(self._answers) > ANSWERS:
            # Misra and Gries: every answer pays one, so what is frequent stays and is never overcounted.
            self._answers = Counter({answer: n - 1 for answer, n in self._answers.items() if n > 1})

    def _modal(self) -> Modal | None:
        if not self._answers:
            return None
        (_, text), count = self._answers.most_common(1)[0]
        return Modal(text, count, count / self._rows) if count > 1 else None

    def _keep(self, name: str, sample: Sample, size: Length) -> None:
        rank = -size.total if name in SHORT_IS_WORST else size.total
        heap = self._worst.setdefault(name, [])
        # Among equals the first seen stays; its row number also keeps samples from being compared.
        entry = (rank, -self._rows, sample)
        if len(heap) < WORST:
            heapq.heappush(heap, entry)
        else:
            heapq.heappushpop(heap, entry)

    def _bad(self, name: str) -> tuple[Bad, ...]:
        ranked = sorted(self._worst[name], key=lambda entry: entry[:2], reverse=True)
        return tuple(self._as_bad(name, sample) for _, _, sample in ranked)

    def _as_bad(self, name: str, sample: Sample) -> Bad:
        speak = CHECKS[name].speak if name in CHECKS else None
        return Bad(
            key=sample.key,
            id=sample.id,
            sample=sample.sample,
            turn=sample.turn,
            tokens=length(sample.completion).total,
            why=(speak(sample, self._rules) if speak else None) or "",
            excerpt=excerpt(sample),
            file=sample.origin.file,
            line=sample.origin.line,
        )


class Spread:
    """Counts of non-negative numbers in bins of at most 1/64 of their value."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._total = 0
        self._low: int | None = None
        self._high = 0

    def add(self, value: int) -> None:
        shift = max(0, value.bit_length() - 7)
        self._counts[value >> shift << shift] += 1
        self._total += value
        self._low = value if self._low is None else min(self._low, value)
        self._high = max(self._high, value)

    def lengths(self) -> Lengths:
        rows, low = self._counts.total(), self._low or 0
        quantiles = {f"p{percent}": self._quantile(percent, rows) for percent in QUANTILES} | {"p0": low}
        quantiles["p100"] = self._high
        return Lengths(self._total, self._total / rows if rows else 0.0, quantiles, self._histogram())

    def _quantile(self, percent: int, rows: int) -> int:
        rank, seen = -(-percent * rows // 100), 0
        for value, count in sorted(self._counts.items()):
            seen += count
            if seen >= rank:
                return value
        return 0

    def _histogram(self) -> tuple[Bin, ...]:
        widths: Counter[int] = Counter()
        for value, count in self._counts.items():
            widths[value.bit_length()] += count
        spanned: Iterable[int] = range(min(widths), max(widths) + 1) if widths else ()
        return tuple(Bin(1 << bits >> 1, max(0, (1 << bits) - 1), widths[bits]) for bits in spanned)


def excerpt(sample: Sample) -> str:
    """The reply's two ends: what it is, and how it ended."""
    text = sample.completion.answer.strip() or sample.completion.reasoning.strip()
    if len(text) <= EXCERPT:
        return text
    half = EXCERPT // 2
    return f"{text[:half]} ... {text[-half:]}"
