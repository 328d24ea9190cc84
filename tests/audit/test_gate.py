import random

import pytest

from sevenfold import config
from sevenfold.audit import Gate, rules
from sevenfold.audit.gate import EARLY, percent
from sevenfold.errors import GateError
from sevenfold.types import Sample
from tests.audit.samples import sample

RULES = rules(config.Judge())
GOOD, BAD = sample(), sample(flags=("trivial",))


def stopped_after(rows: list[Sample], gate: Gate) -> int | None:
    for number, row in enumerate(rows, 1):
        try:
            gate.observe(row)
        except GateError:
            return number
    return None


def drawn(share: float, rows: int, seed: int) -> list[Sample]:
    draw = random.Random(seed)
    return [BAD if draw.random() < share else GOOD for _ in range(rows)]


def test_a_run_of_trivial_replies_stops_with_one_sentence() -> None:
    gate = Gate(RULES)
    assert stopped_after([BAD] * (EARLY - 1), gate) is None
    with pytest.raises(GateError) as stopped:
        gate.observe(BAD)
    assert stopped.value.message == (
        f"100% of {EARLY} rows are trivial (limit 5%): a reply of fewer than 16 output tokens"
    )
    assert "judge.limits.trivial" in stopped.value.remedy


def test_the_gravest_flag_is_named() -> None:
    gate, bad = Gate(RULES), sample(flags=("no_reasoning", "trivial"))
    assert stopped_after([bad] * (EARLY - 1), gate) is None
    with pytest.raises(GateError, match="rows are no_reasoning"):
        gate.observe(bad)


@pytest.mark.parametrize("share", [0.2, 0.3, 0.5, 0.87])
def test_clear_evidence_stops_early(share: float) -> None:
    found = [stopped_after(drawn(share, 1000, seed), Gate(RULES)) for seed in range(100)]
    assert all(number is not None and number <= 400 for number in found)


@pytest.mark.parametrize("name", ["trivial", "truncated", "think_leak"])
def test_a_run_at_half_its_limit_never_stops(name: str) -> None:
    half = RULES.limits[name] / 2
    bad = sample(flags=(name,))
    for seed in range(200):
        draw = random.Random(seed)
        gate = Gate(RULES)
        for _ in range(5000):
            gate.observe(bad if draw.random() < half else GOOD)


def test_short_replies_come_back_first_and_stop_nothing() -> None:
    """Of 1,024 rows in flight half the limit is trivial, and all of those arrive before any other."""
    first = round(1024 * RULES.limits["trivial"] / 2)
    assert stopped_after([BAD] * first + [GOOD] * 2000, Gate(RULES)) is None


def test_a_share_within_its_limit_passes_whatever_it_is() -> None:
    lax = rules(config.Judge(limits={"trivial": 1.0}))
    gate = Gate(lax)
    assert stopped_after([BAD] * 500, gate) is None
    assert gate.verdict_at_end() is None


def test_a_limit_of_zero_waits_for_the_first_full_look() -> None:
    gate = Gate(rules(config.Judge(limits={"trivial": 0.0})))
    assert stopped_after([BAD] + [GOOD] * 200 + [BAD], gate) == 202


def test_the_final_share_is_judged_from_twenty_rows_on() -> None:
    small, large = Gate(RULES), Gate(RULES)
    stopped_after([BAD] * 19, small)
    stopped_after([BAD] * 2 + [GOOD] * 18, large)
    assert small.verdict_at_end() is None
    over = large.verdict_at_end()
    assert over is not None
    assert over.message.startswith("10% of 20 rows are trivial (limit 5%)")


def test_a_final_share_at_its_limit_is_not_over_it() -> None:
    gate = Gate(RULES)
    stopped_after([BAD] * 5 + [GOOD] * 95, gate)
    assert gate.verdict_at_end() is None


@pytest.mark.parametrize(("share", "text"), [(1.0, "100%"), (0.05, "5%"), (0.0525, "5.25%"), (0.0, "0%")])
def test_percent(share: float, text: str) -> None:
    assert percent(share) == text
