import threading
from collections.abc import Iterable

import pytest

from sevenfold.errors import NodeError
from sevenfold.node.asked import Once, Subject, Wanted
from sevenfold.node.doctor import Finding, Probe, Report, examine, note, ok, warn, worst

SUBJECT = Subject(Wanted(), driver=lambda: None)


def test_probes_report_in_order_with_what_they_raise() -> None:
    def good(_: Subject) -> Iterable[Finding]:
        yield ok("fine")
        yield note("by the way")

    def ours(_: Subject) -> Iterable[Finding]:
        yield ok("not shown: the error is the answer")
        raise NodeError("a port is taken", "end it")

    def gone(_: Subject) -> Iterable[Finding]:
        raise FileNotFoundError(2, "No such file or directory", "/x")

    probes = {name: Probe(name, "", question, 5.0) for name, question in (("a", good), ("b", ours), ("c", gone))}
    reports = examine(SUBJECT, probes)
    assert [(report.probe, report.level) for report in reports] == [("a", "note"), ("b", "fail"), ("c", "warn")]
    assert reports[1].findings == (Finding("fail", "a port is taken", "end it"),)
    assert worst(reports) == "fail"


def test_a_probe_that_hangs_is_named_and_left_behind() -> None:
    end = threading.Event()

    def hanging(_: Subject) -> Iterable[Finding]:
        end.wait(60.0)
        yield ok("late")

    def quick(_: Subject) -> Iterable[Finding]:
        yield ok("there")

    probes = {"mount": Probe("mount", "the mount", hanging, 0.01), "quick": Probe("quick", "", quick, 5.0)}
    try:
        mount, other = examine(SUBJECT, probes)
    finally:
        end.set()
    assert (mount.level, other.level) == ("fail", "ok")
    assert "no answer in 0 s about: the mount" in mount.findings[0].sentence


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_probe_that_breaks_is_a_fault_of_ours_and_stops_no_other() -> None:
    def broken(_: Subject) -> Iterable[Finding]:
        raise ZeroDivisionError

    assert examine(SUBJECT, {"x": Probe("x", "", broken, 5.0)})[0].findings[0].sentence == "the probe itself broke"


def test_the_gravest_finding_is_the_level() -> None:
    assert Report("x", (warn("a", "b"), ok("c")), 0.0).level == "warn"
    assert Report("x", (), 0.0).level == "ok"
    assert worst(()) == "ok"


def test_a_fact_is_looked_up_once() -> None:
    asked: list[int] = []
    fact = Once(lambda: asked.append(1))
    assert (fact(), fact(), asked) == (None, None, [1])
