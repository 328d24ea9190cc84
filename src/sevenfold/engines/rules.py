"""What is known of an engine's flags and faults, by version: `rules.toml`, and how to ask it.

`check_flags` says what stops a launch or does not do what it looks like; `advisories` says what the version does wrong
that bears on these flags. Neither knows the model or the machine: what fits is the plan's business.
Add a rule: one table in rules.toml.
"""

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Literal

import msgspec

from sevenfold.engines.flags import Value, given, plain
from sevenfold.engines.versions import inside

Severity = Literal["error", "warn", "note"]
Kind = Literal["flags", "bug", "api", "sampling", "metrics"]

OURS = {
    "sglang": ("model-path", "model", "served-model-name", "host", "port"),
    "vllm": ("model", "served-model-name", "host", "port"),
    "llamacpp": ("model", "port", "host"),
}
"""Flags that each replica gets from its place in the fleet."""

CONDITION = re.compile(r"(?P<no>!)?(?P<flag>\$?[\w-]+)((?P<op>!=|=|~|>|<)(?P<than>.*))?")


class Finding(msgspec.Struct, frozen=True):
    severity: Severity
    """error: the engine would not start. warn: it would do something else than it looks like. note: worth knowing."""
    sentence: str
    remedy: str
    kind: Kind = "flags"
    flag: str = ""
    """The flag it is about, by plain name, where it is about one."""
    instead: str = ""
    """The name of that flag in this version."""


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    engine: str
    kind: Kind
    severity: Severity
    sign: str
    consequence: str
    remedy: str
    versions: str = ""
    when: tuple[str, ...] = ()
    honoured: bool = False

    @property
    def sentence(self) -> str:
        return f"{self.sign}: {self.consequence}"

    @property
    def about_launch(self) -> bool:
        """About the command line alone; the rest concerns the version, or its environment."""
        return self.kind == "flags" and not any(term.startswith("$") for term in self.when)


class Moved(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    engine: str
    old: str
    kept: str
    gone: str
    new: str = ""
    known: str = ""
    remedy: str = ""


class _Book(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rule: tuple[Rule, ...]
    moved: tuple[Moved, ...]


def rules(engine: str, version: str) -> Iterator[Rule]:
    """Every rule that holds for this version, whatever the flags, the honoured ones too."""
    return (rule for rule in _book().rule if rule.engine == engine and inside(version, rule.versions))


def check_flags(
    engine: str, version: str, flags: Mapping[str, Value], known_flags: set[str] | None = None
) -> list[Finding]:
    """What is wrong with `flags`, gravest first. `known_flags`: what the installed engine itself takes, where it was
    asked; they decide whether a flag exists."""
    known = {plain(name) for name in known_flags} if known_flags is not None else None
    mine = given(flags)
    found = [finding for name in mine for finding in _check_name(engine, version, name, known)]
    found += _matching(engine, version, mine, launch=True)
    return sorted(found, key=lambda finding: ("error", "warn", "note").index(finding.severity))


def advisories(
    engine: str, version: str, flags: Mapping[str, Value], env: Mapping[str, str] | None = None
) -> list[Finding]:
    """Known faults of this version that these flags, or these variables of the engine's environment, bring about."""
    facts = given(flags) | {f"${name}": value for name, value in (env or {}).items()}
    return _matching(engine, version, facts, launch=False)


def renamed(engine: str, version: str, flags: Mapping[str, Value]) -> tuple[dict[str, Value], list[Finding]]:
    """The flags under the names of this version, and a note on each that changed its name."""
    mapped: dict[str, Value] = {}
    notes: list[Finding] = []
    for name, value in given(flags).items():
        new = _name_in(engine, version, name)
        if new != name:
            sentence = f"--{name} is called --{new} in {engine} {version}: sent under that name"
            notes.append(Finding("note", sentence, f"write it as {new}", flag=name, instead=new))
        mapped[new] = value
    return mapped, notes


def nearest(name: str, known: set[str]) -> str:
    """The known flag that was probably meant, or nothing. One whose words are all there beats one that looks alike."""
    words = set(name.split("-"))
    whole = sorted((flag for flag in known if words <= set(flag.split("-"))), key=len)
    close = whole or difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return close[0] if close else ""


@cache
def _book() -> _Book:
    text = resources.files("sevenfold.engines").joinpath("rules.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), _Book)


def _check_name(engine: str, version: str, name: str, known: set[str] | None) -> Iterator[Finding]:
    if name in OURS.get(engine, ()):
        yield Finding("error", f"--{name}: each replica gets its own", "leave it out of the flags", flag=name)
        return
    moved = _moved(engine, version, name, known)
    if moved is not None:
        yield moved
    elif known is not None and name not in known:
        yield from _unknown(engine, version, name, known)


def _moved(engine: str, version: str, name: str, known: set[str] | None) -> Finding | None:
    """About a name that is too old or too new for this version. None where it is the right one."""
    for move in _book().moved:
        if move.engine != engine or name not in (move.old, move.new):
            continue
        if name == move.new:
            if inside(version, f">={move.known}") or (known is not None and name in known):
                return None
            sentence = f"{engine} {version} does not know --{name}: it came with {move.known}"
            return Finding("error", sentence, f"it is called --{move.old} here", flag=name, instead=move.old)
        return _old_name(move, version, known)
    return None


def _old_name(move: Moved, version: str, known: set[str] | None) -> Finding | None:
    new = move.new if move.new and inside(version, f">={move.known}") else ""
    taken = move.old in known if known is not None else not inside(version, f">={move.gone}")
    if not taken:
        sentence = f"{move.engine} {version} does not know --{move.old} any more and exits with code 2"
        remedy = f"--{new} is its name now" if new else move.remedy
        return Finding("error", sentence, remedy, flag=move.old, instead=new)
    if new:
        sentence = f"--{move.old} is an old name in {move.engine} {version}, gone in {move.gone}"
        return Finding("note", sentence, f"write --{new}", flag=move.old, instead=new)
    if known is None and inside(version, f">{move.kept}"):
        sentence = f"--{move.old} may be gone in {move.engine} {version}: {move.kept} has it, {move.gone} has not"
        return Finding("warn", sentence, move.remedy or f"--{move.new} is its newer name", flag=move.old)
    return None


def _name_in(engine: str, version: str, name: str) -> str:
    finding = _moved(engine, version, name, None)
    return finding.instead if finding is not None and finding.instead else name


def _unknown(engine: str, version: str, name: str, known: set[str]) -> Iterator[Finding]:
    """argparse takes a beginning that fits one flag only; one that fits several is as bad as none."""
    longer = sorted(flag for flag in known if flag.startswith(name))
    if len(longer) == 1:
        yield Finding("note", f"--{name} is short for --{longer[0]}", f"write --{longer[0]}", flag=name)
        return
    near = longer[0] if longer else nearest(name, known)
    why = f"could be {', '.join('--' + flag for flag in longer[:4])}" if longer else "is no flag"
    remedy = f"did you mean --{near}?" if near else f"see the flags of {engine} {version} with --help"
    yield Finding("error", f"--{name} {why} of {engine} {version}", remedy, flag=name, instead=near)


def _matching(engine: str, version: str, facts: Mapping[str, Value], launch: bool) -> list[Finding]:
    return [
        _finding(rule, facts)
        for rule in rules(engine, version)
        if rule.about_launch is launch and rule.when and not rule.honoured and _holds(rule, facts)
    ]


def _finding(rule: Rule, facts: Mapping[str, Value]) -> Finding:
    return Finding(rule.severity, rule.sentence.format_map(facts), rule.remedy, rule.kind)


def _holds(rule: Rule, facts: Mapping[str, Value]) -> bool:
    return all(_meets(term, facts) for term in rule.when)


def _meets(term: str, facts: Mapping[str, Value]) -> bool:
    found = CONDITION.fullmatch(term)
    assert found is not None, term
    met = found["flag"] in facts and _compares(facts[found["flag"]], found["op"], found["than"], facts)
    return met != bool(found["no"])


def _compares(value: Value, op: str | None, than: str | None, facts: Mapping[str, Value]) -> bool:
    if op is None or than is None:
        return True
    if op == "~":
        return than.lower() in str(value).lower()
    if than.startswith("@"):
        other, _, more = than[1:].partition("+")
        number = _number(facts.get(other, ""))
        if number is None:
            return False
        than = str(number + float(more))
    mine, theirs = _number(value), _number(than)
    if mine is None or theirs is None:
        same = str(value).lower() == than.lower()
        return same if op == "=" else op == "!=" and not same
    return {"=": mine == theirs, "!=": mine != theirs, ">": mine > theirs, "<": mine < theirs}[op]


def _number(value: Value) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None
