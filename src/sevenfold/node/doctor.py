"""The examination of a machine before anything is started: probes by name, each one question, each with a deadline.

A probe is one function under `@probe`: it yields findings, a sentence each, with what helps where something is wrong.
All run at once; one that hangs on a driver or a mount is named and left behind. Nothing is changed on the machine.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from sevenfold.errors import SevenfoldError
from sevenfold.node.asked import Subject

Level = Literal["ok", "note", "warn", "fail"]
LEVELS: tuple[Level, ...] = ("ok", "note", "warn", "fail")

USUAL = 9.0
"""Seconds for a probe: a machine without GPUs is examined in less than ten."""


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    level: Level
    """fail: the run would not work. warn: it would be slow or at risk. note: worth knowing."""
    sentence: str
    remedy: str = ""


class Report(msgspec.Struct, frozen=True):
    probe: str
    findings: tuple[Finding, ...]
    seconds: float

    @property
    def level(self) -> Level:
        return gravest(finding.level for finding in self.findings)


Patience = float | Callable[[Subject], float]
Question = Callable[[Subject], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Probe:
    name: str
    about: str
    question: Question
    seconds: Patience


PROBES: dict[str, Probe] = {}


def probe(name: str, seconds: Patience = USUAL) -> Callable[[Question], Question]:
    """Registers a function; the first line of its docstring says what it is about."""

    def register(question: Question) -> Question:
        about = (question.__doc__ or "").partition("\n")[0].strip()
        PROBES[name] = Probe(name, about, question, seconds)
        return question

    return register


def ok(sentence: str) -> Finding:
    return Finding("ok", sentence)


def note(sentence: str, remedy: str = "") -> Finding:
    return Finding("note", sentence, remedy)


def warn(sentence: str, remedy: str) -> Finding:
    return Finding("warn", sentence, remedy)


def fail(sentence: str, remedy: str) -> Finding:
    return Finding("fail", sentence, remedy)


def examine(subject: Subject, probes: Mapping[str, Probe] = PROBES) -> tuple[Report, ...]:
    """In the order of `probes`. Returns when the last deadline has passed, whatever hangs."""
    began = time.monotonic()
    running = [_Running(probe, subject) for probe in probes.values()]
    return tuple(each.report(began) for each in running)


def worst(reports: Sequence[Report]) -> Level:
    return gravest(report.level for report in reports)


def gravest(levels: Iterable[Level]) -> Level:
    found = set(levels)
    for level in reversed(LEVELS):
        if level in found:
            return level
    return "ok"


class _Running:
    """One probe in a daemon thread: when it never returns, the process ends without it."""

    def __init__(self, probe: Probe, subject: Subject) -> None:
        self._probe, self._subject = probe, subject
        self._findings: tuple[Finding, ...] | None = None
        self._seconds = 0.0
        self._thread = threading.Thread(target=self._ask, name=f"probe-{probe.name}", daemon=True)
        self._thread.start()

    def report(self, began: float) -> Report:
        wanted = self._probe.seconds
        patience = wanted(self._subject) if callable(wanted) else wanted
        self._thread.join(max(0.0, began + patience - time.monotonic()))
        if self._thread.is_alive():
            sentence = f"no answer in {patience:.0f} s about: {self._probe.about}"
            found = (fail(sentence, "a device, a mount or an interpreter hangs: see dmesg and ps axo pid,stat,wchan"),)
            return Report(self._probe.name, found, round(patience, 3))
        broken = (fail("the probe itself broke", "its traceback stands above; please report it"),)
        return Report(self._probe.name, broken if self._findings is None else self._findings, round(self._seconds, 3))

    def _ask(self) -> None:
        began = time.monotonic()
        try:
            self._findings = tuple(self._probe.question(self._subject))
        except SevenfoldError as error:
            self._findings = (fail(error.message, error.remedy),)
        except OSError as error:
            self._findings = (warn(f"could not be looked at: {error}", "see that the path is there and yours"),)
        self._seconds = time.monotonic() - began
