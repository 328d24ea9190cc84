"""`plan`: what a launch really gives, before it is started."""

import math
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from sevenfold.capacity.gpu import GIB
from sevenfold.capacity.roofline import Lengths
from sevenfold.cli.output import put, put_json
from sevenfold.cli.talk import say
from sevenfold.engines.rules import Finding
from sevenfold.errors import ConfigError
from sevenfold.job import profiles
from sevenfold.job.planning import Forecast, Plan, Scenario, side_by_side
from sevenfold.job.planning import plan as planned
from sevenfold.job.script import script as as_script


class _Replica(msgspec.Struct, frozen=True):
    max_running_requests: int
    kv_tokens: int
    state_slots: int
    weights_bytes: int
    binding_limit: str


class _Report(msgspec.Struct, frozen=True):
    """What --json promises of one profile."""

    replica: _Replica | None
    fleet: Forecast | None
    argv: list[tuple[str, ...]]
    estimated: bool
    findings: tuple[Finding, ...]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Asked:
    gpu: str = ""
    """Kind of GPU, such as B200. Default: the profile's."""
    replicas: int = 0
    """How many replicas. Default: the profile's."""
    rows: int | None = None
    """Completions wanted; without it no hours and no cost."""
    mean_output: float = 2000
    """Mean tokens of a completion, thinking included."""
    mean_prompt: float = 180
    """Mean tokens of a prompt."""
    spread: float = 0.8
    """Log deviation of the completions' lengths; 0: all alike."""
    price: float | None = None
    """Of one GPU for one hour."""
    model: Path | None = None
    """A model's folder, or a config.json. Default: the profile's, or the shipped shape of it."""
    engine_version: str = ""
    """Version of the engine. Default: the one that is installed, else the profile's."""
    python: str = ""
    """Interpreter of the engine's own environment. Default: the one that runs sevenfold."""

    def scenario(self) -> Scenario:
        """ConfigError on a number out of its range."""
        wrong = {
            "--replicas": self.replicas < 0,
            "--rows": self.rows is not None and self.rows < 0,
            "--mean-output": not 0 < self.mean_output < math.inf,
            "--mean-prompt": not 0 < self.mean_prompt < math.inf,
            "--spread": not 0 <= self.spread <= 3,
            "--price": not 0 <= (self.price or 0) < math.inf,
        }
        for flag, bad in wrong.items():
            if bad:
                raise ConfigError(f"{flag}: out of range", "counts and lengths are positive, a spread is 0 to 3")
        return Scenario(
            gpu=self.gpu,
            replicas=self.replicas,
            rows=self.rows,
            lengths=Lengths(self.mean_prompt, self.mean_output, self.spread),
            price=self.price,
            model=self.model,
            engine_version=self.engine_version,
            python=self.python,
        )


NOTHING_ASKED = Asked()


def plan(
    *,
    profile: Annotated[list[str] | None, Parameter(negative=())] = None,
    script: Annotated[bool, Parameter(negative=())] = False,
    json: bool = False,
    asked: Asked = NOTHING_ASKED,
) -> int:
    """Say what a launch gives, what limits it, how long it takes and what it costs. Needs no GPU.

    Exit code 2 where the engine would refuse to start.

    Parameters
    ----------
    profile
        A profile's name or TOML file; given several times they stand side by side. Without it: the launch as found
        and the fastest shipped one for that GPU.
    script
        Print the launch of one profile as bash.
    json
        One JSON object on stdout; of several profiles, an object by their names.
    """
    scenario = asked.scenario()
    if script and len(profile or ()) != 1:
        raise ConfigError("--script is for one profile", "name it: --profile NAME")
    if not profile and not scenario.gpu:
        raise ConfigError("no profile and no GPU was named", "sevenfold plan --gpu B200, or --profile NAME")
    plans = [planned(profiles.load(name), scenario) for name in profile] if profile else side_by_side(scenario)
    if script:
        _put_script(plans[0])
    elif json:
        reports = [_report(one) for one in plans]
        put_json(reports[0] if len(plans) == 1 else dict(zip(_names(plans), reports, strict=True)))
    else:
        put(_screen(plans, scenario))
    return ConfigError.exit_code if any(one.refused for one in plans) else 0


def _put_script(one: Plan) -> None:
    for finding in one.findings:
        say(_sentence(finding))
    if not one.refused:
        put(as_script(one).rstrip("\n"))


def _report(one: Plan) -> _Report:
    got = one.replica
    return _Report(
        replica=_Replica(*(getattr(got, name) for name in _Replica.__struct_fields__)) if got else None,
        fleet=one.fleet,
        argv=[launch.command.argv for launch in one.launches],
        estimated=got.estimated if got else True,
        findings=one.findings,
    )


def _names(plans: list[Plan]) -> list[str]:
    return [one.profile.name for one in plans]


def _screen(plans: list[Plan], scenario: Scenario) -> str:
    lengths = scenario.lengths
    asked = f"{scenario.rows:,} rows of " if scenario.rows is not None else ""
    lines = [
        f"{asked}{lengths.prompt:,.0f} tokens in and {lengths.output:,.0f} out, spread {lengths.spread:g}: "
        f"{lengths.live:,.0f} live tokens per running request",
        "",
        *_table([["", *_names(plans)], *_rows(plans, scenario)]),
    ]
    for one in plans:
        lines += ["", *_about(one)]
    for one in plans:
        lines += ["", f"{one.profile.name} starts:", *_commands(one)]
    return "\n".join(lines)


def _rows(plans: list[Plan], scenario: Scenario) -> list[list[str]]:
    rows = [
        ["launch", *(f"{len(p.launches)} x {p.gpu.name}, {p.profile.engine} {p.engine_version}" for p in plans)],
        ["weights", *(f"{p.replica.weights_bytes / GIB:.1f} GiB" if p.replica else "-" for p in plans)],
        ["states", *(_states(p) for p in plans)],
        ["KV cache", *(_cache(p) for p in plans)],
        ["running requests", *(_running(p) for p in plans)],
        ["tokens/s, replica", *(f"{p.replica.tokens_per_second.end_to_end:,.0f}" if p.replica else "-" for p in plans)],
        ["tokens/s, fleet", *(f"{p.fleet.tokens_per_second:,.0f}" if p.fleet else "-" for p in plans)],
    ]
    if scenario.rows is not None:
        rows.append(["hours", *(_figure(p.fleet.hours if p.fleet else None, 1) for p in plans)])
    if scenario.rows is not None and scenario.price is not None:
        rows.append(["cost", *(_figure(p.fleet.cost if p.fleet else None) for p in plans)])
    return rows


def _figure(number: float | None, decimals: int = 0) -> str:
    return "-" if number is None else f"{number:,.{decimals}f}"


def _states(one: Plan) -> str:
    if one.replica is None:
        return "-"
    return (
        f"{one.replica.state_bytes / GIB:.1f} GiB, {one.replica.state_slots} slots"
        if one.replica.state_slots
        else "none"
    )


def _cache(one: Plan) -> str:
    return f"{one.replica.kv_bytes / GIB:.1f} GiB, {one.replica.kv_tokens:,} tokens" if one.replica else "-"


def _running(one: Plan) -> str:
    if one.replica is None:
        return "-"
    most, mean = one.replica.max_running_requests, one.replica.sustained
    return f"{most}" if mean == most else f"{most}, {mean} at once with these lengths"


def _table(rows: list[list[str]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _about(one: Plan) -> list[str]:
    """The sentences about one profile, the limit first."""
    lines = [f"{one.profile.name}: {one.profile.description}".removesuffix(": ")]
    if one.replica:
        lines.append(f"  limit: {one.replica.binding_limit}")
    lines += [f"  {_sentence(finding)}" for finding in one.findings]
    if one.replica:
        lines += [*(f"  {said}" for said in one.replica.sentences), f"  shape: {one.shape}"]
    return [*lines, f"  {one.checked}"]


def _commands(one: Plan) -> list[str]:
    """Environment and argv of each replica, ready for a shell."""
    lines: list[str] = []
    for launch in one.launches:
        env = [f"{key}={shlex.quote(value)}" for key, value in launch.command.env.items()]
        lines.append(f"  [{launch.name}] {' '.join(env)} {shlex.join(launch.command.argv)}")
    return lines


def _sentence(finding: Finding) -> str:
    return f"{finding.severity}: {finding.sentence}" + (f" -> {finding.remedy}" if finding.remedy else "")
