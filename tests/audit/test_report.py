import random

import msgspec
import pytest

from sevenfold import config
from sevenfold.audit import Audit, Report, rules
from sevenfold.audit.report import ANSWERS, WORST, Bin, Modal, Spread, excerpt
from sevenfold.types import Failure, Origin, Sample
from tests.audit.samples import sample

RULES = rules(config.Judge())


def audited(*samples: Sample) -> Audit:
    report = Report(RULES)
    for each in samples:
        report.add(each)
    return report.result()


def test_flags_are_counted_whatever_else_was_said() -> None:
    found = audited(*[sample()] * 17, *[sample(flags=("truncated", "trivial"))] * 2, sample(flags=("trivial",)))
    assert (found.rows, found.ok) == (20, 17)
    assert (found.flags["truncated"].count, found.flags["truncated"].over) == (2, False)
    assert (found.flags["trivial"].count, found.flags["trivial"].share, found.flags["trivial"].limit) == (3, 0.15, 0.05)
    assert found.over == ("trivial",)


def test_a_flag_of_another_version_is_reported_and_never_over() -> None:
    found = audited(sample(flags=("from_the_future",)))
    assert (found.flags["from_the_future"].count, found.over) == (1, ())
    assert len(found.worst["from_the_future"]) == 1


def test_failures_are_counted_by_kind() -> None:
    report = Report(RULES)
    for kind in ("timeout", "too_long", "timeout"):
        report.add_failure(Failure("k", 1, 0, 0, 1, kind, "why", Origin("f", 1), permanent=False))
    found = report.result()
    assert (found.rows, found.failures, found.failure_kinds) == (0, 3, {"timeout": 2, "too_long": 1})


def test_the_modal_answer_and_its_share() -> None:
    found = audited(sample("OK.", "one"), sample(" OK.\n", "two"), sample("No."), sample("Yes."))
    assert found.modal == Modal("OK.", 2, 0.5)
    assert audited(sample("a"), sample("b")).modal is None
    assert audited(sample(""), sample("")).modal is None


def test_the_modal_answer_is_found_among_more_answers_than_are_remembered() -> None:
    report = Report(RULES)
    for n in range(2 * ANSWERS):
        report.add(sample(f"answer {n}"))
        if n % 10 == 0:
            report.add(sample("OK."))
    modal = report.result().modal
    assert modal is not None
    assert modal.text == "OK."
    assert 2 * ANSWERS // 10 - 3 <= modal.count <= 2 * ANSWERS // 10


def test_the_worst_are_the_longest_and_of_trivial_ones_the_shortest() -> None:
    rows = [sample(tokens=n, key=str(n), finish="length", flags=("truncated", "trivial")) for n in range(1, 10)]
    random.Random(1).shuffle(rows)
    worst = audited(*rows).worst
    assert [bad.key for bad in worst["truncated"]] == ["9", "8", "7", "6", "5"]
    assert [bad.key for bad in worst["trivial"]] == ["1", "2", "3", "4", "5"]
    assert len(worst["trivial"]) == WORST
    assert (worst["truncated"][0].why, worst["trivial"][0].why) == ("finish_reason length", "1 output tokens")


def test_an_excerpt_shows_both_ends_of_the_answer_else_of_the_thought() -> None:
    assert excerpt(sample(" short ")) == "short"
    assert excerpt(sample("", "a thought")) == "a thought"
    assert excerpt(sample("a" * 500 + "z" * 500)) == "a" * 80 + " ... " + "z" * 80


def test_quantiles_are_exact_when_small_and_close_when_large() -> None:
    small, large = Spread(), Spread()
    for n in range(1, 101):
        small.add(n)
        large.add(n * 1000)
    assert small.lengths().quantiles == {"p0": 1, "p1": 1, "p10": 10, "p50": 50, "p90": 90, "p99": 99, "p100": 100}
    quantiles = large.lengths().quantiles
    assert (quantiles["p0"], quantiles["p100"], large.lengths().mean) == (1000, 100_000, 50_500)
    assert quantiles["p50"] == pytest.approx(50_000, rel=1 / 64)
    assert quantiles["p99"] == pytest.approx(99_000, rel=1 / 64)


def test_the_histogram_doubles_and_has_no_holes() -> None:
    spread = Spread()
    for n in (0, 1, 6, 7, 16):
        spread.add(n)
    assert spread.lengths().histogram == (
        Bin(0, 0, 1),
        Bin(1, 1, 1),
        Bin(2, 3, 0),
        Bin(4, 7, 2),
        Bin(8, 15, 0),
        Bin(16, 31, 1),
    )


def test_an_audit_is_plain_json() -> None:
    found = audited(sample(), sample("OK", flags=("trivial",)))
    assert msgspec.json.decode(msgspec.json.encode(found), type=Audit) == found
