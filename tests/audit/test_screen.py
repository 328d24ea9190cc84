import unicodedata

from sevenfold import config
from sevenfold.audit import Report, render, rules
from sevenfold.audit.screen import WIDTH, clip, plain
from sevenfold.types import Failure, Origin, Sample
from tests.audit.samples import prose, sample

RULES = rules(config.Judge())


def shown(*samples: Sample, failures: int = 0) -> list[str]:
    report = Report(RULES)
    for each in samples:
        report.add(each)
    for _ in range(failures):
        report.add_failure(Failure("k", 1, 0, 0, 1, "timeout", "why", Origin("f", 1), permanent=False))
    return render(report.result()).split("\n")


def columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)


def test_a_screen_as_it_reads() -> None:
    rows = [sample(f"{n}" * 4, tokens=n) for n in range(20, 400)]
    rows += [sample("OK.", "", tokens=6, flags=("no_reasoning", "trivial"))] * 20
    lines = shown(*rows, failures=2)
    assert lines[:5] == [
        "400 rows, 380 ok (95%), and 2 without a reply: 2 timeout",
        "",
        "flag                          rows    share   limit  meaning",
        "no_reasoning                    20       5%      5%  Thinking was asked for and none came back.",
        "trivial                         20       5%      5%  A reply of fewer than 16 output tokens.",
    ]
    assert "most frequent answer: 20 rows (5%): OK." in lines
    assert "no_reasoning: 000000000000 (6 tokens): OK." in lines
    assert any(line.startswith("256-511") and "#" in line for line in lines)


def test_a_flag_over_its_limit_is_marked() -> None:
    lines = shown(sample(flags=("trivial",)))
    assert any(line.startswith("trivial") and "100%      5%! " in line for line in lines)


def test_it_fits_a_screen_and_the_models_text_reaches_no_terminal() -> None:
    nasty = "\x1b[31m\u202e\x07猫" + prose(300) + "\r\n\x9b2J" + "猫" * 200
    rows = [sample(nasty, tokens=1 << n, flags=tuple(RULES.limits)) for n in range(18)]
    lines = shown(*rows, failures=1)
    assert len(lines) <= 60
    assert max(map(columns, lines)) <= WIDTH
    assert all(line.isprintable() for line in lines)


def test_nothing_to_show() -> None:
    assert shown() == ["no rows"]
    assert shown(failures=1) == ["no rows, and 1 without a reply: 1 timeout"]
    assert shown(sample())[:2] == ["1 rows, 1 ok (100%)", "no flags"]


def test_estimated_lengths_say_so() -> None:
    assert "(tokens of 1 rows are estimated from characters)" in shown(sample(tokens=0))


def test_clip_counts_columns() -> None:
    assert clip("a" * 10, 10) == "a" * 10
    assert clip("a" * 11, 10) == "a" * 7 + "..."
    assert clip("猫" * 6, 10) == "猫" * 3 + "..."


def test_plain_is_one_line() -> None:
    assert plain("a\n\tb\x1b[0m\u202ec") == "a b [0m c"
