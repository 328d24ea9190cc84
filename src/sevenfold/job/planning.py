"""A profile planned for a GPU: what each replica would get, how fast and how dear the fleet is, what would be started.

It starts no engine and needs no GPU; of an engine that is installed here it asks the flags. What the server really got
is for its own words after the launch to say.
"""

import sys
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import msgspec

from sevenfold.capacity.gpu import GPU, find_gpu
from sevenfold.capacity.model import ModelShape, model_shape
from sevenfold.capacity.plan import ReplicaPlan, plan_fleet, plan_replica
from sevenfold.capacity.profile import Profile
from sevenfold.capacity.roofline import Lengths
from sevenfold.config import RunSpec
from sevenfold.engines import ENGINES
from sevenfold.engines.base import Command, Serve
from sevenfold.engines.flags import given
from sevenfold.engines.parsers import PROGRAMS
from sevenfold.engines.rules import Finding, advisories, check_flags
from sevenfold.errors import ConfigError
from sevenfold.fleet import Canary, Expected, FleetPlan, plan_for
from sevenfold.fleet.launch import gpu_kind
from sevenfold.job import profiles
from sevenfold.node.flags import installed, known_flags
from sevenfold.node.gpus import VARIABLE
from sevenfold.node.models import Model
from sevenfold.node.process import Identity
from sevenfold.types import JSON

MEMORY_RULES = ("sglang", "vllm")
"""Engines whose memory can be planned."""

CONTEXT = {"sglang": "context-length", "vllm": "max-model-len"}
"""The flag that each is given for `fleet.context` where the user wrote none."""

USUAL_PROMPT = 200
"""Tokens of a prompt where nobody counted: running requests and KV tokens of a launch do not depend on it."""

BASE_PORT = 30000
"""Of the first replica where the profile leaves the port open: a plan has to name one."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked beside the profile. Empty: as the profile says."""

    gpu: str = ""
    replicas: int = 0
    rows: int | None = None
    lengths: Lengths
    price: float | None = None
    """Of one GPU for one hour."""
    model: Path | None = None
    """A model's folder, which is launched too, or a config.json, which only gives the shape."""
    engine_version: str = ""
    python: str = ""
    """The engine's interpreter; empty: the one that runs sevenfold."""


class Launch(msgspec.Struct, frozen=True):
    """One replica as it would be started. `command.env` holds all that is added to the environment."""

    name: str
    model: str
    port: int
    ready_path: str
    gpus: tuple[str, ...]
    command: Command


class Forecast(msgspec.Struct, frozen=True):
    """Of the whole fleet."""

    tokens_per_second: float
    hours: float | None
    """None where nobody said how many rows."""
    cost: float | None
    """None where nobody named a price, or rows."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    profile: Profile
    gpu: GPU
    engine_version: str
    shape: str
    """Where the model's shape came from; empty where the engine's memory cannot be planned."""
    replica: ReplicaPlan | None
    """None where it would not start, which is an error among the findings, or cannot be planned."""
    fleet: Forecast | None
    launches: tuple[Launch, ...]
    findings: tuple[Finding, ...]
    """Gravest first."""
    checked: str
    """Against what the flags were checked, in one sentence."""

    @property
    def refused(self) -> bool:
        return any(finding.severity == "error" for finding in self.findings)


def launch_plan(
    spec: RunSpec, model: Model, run: Path, owner: Identity | None = None, canary: Canary | None = None
) -> FleetPlan:
    """What the supervisor is to start, with what each replica is expected to say of itself. Blocks on nvidia-smi."""
    gpu = gpu_kind() if spec.fleet.engine in MEMORY_RULES else ""
    return plan_for(spec, model, run, owner, canary, expected(spec, model.path, gpu) if gpu else None)


def expected(spec: RunSpec, model: Path, gpu: str) -> Expected | None:
    """By the flags, the model's config.json and the driver's name of the GPU; None where one of them is not known, or
    the engine would refuse them, which it says better itself."""
    fleet = spec.fleet
    if fleet.engine not in MEMORY_RULES:
        return None
    flags = {CONTEXT[fleet.engine]: fleet.context, **given(fleet.flags)}
    version = installed(fleet.python or sys.executable, fleet.engine)
    lengths = Lengths(prompt=USUAL_PROMPT, output=spec.sampling.max_tokens)
    try:
        shape, _ = _read_shape(model / "config.json")
        found = plan_replica(shape, find_gpu(gpu), flags, version, lengths, engine=fleet.engine)
    except ConfigError:
        return None
    return Expected(found.max_running_requests, found.kv_tokens)


class _Checked(msgspec.Struct, frozen=True):
    version: str
    findings: list[Finding]
    sentence: str


def plan(profile: Profile, scenario: Scenario) -> Plan:
    """ConfigError on a GPU, a model or a version that is not known; what the engine would refuse is a finding."""
    gpu = find_gpu(scenario.gpu or profile.gpu)
    checked = _check(profile, scenario)
    findings = list(checked.findings)
    replica, where = None, ""
    if profile.engine in MEMORY_RULES:
        shape, where = _shape(profile, scenario.model)
        try:
            replica = plan_replica(shape, gpu, profile.flags, checked.version, scenario.lengths, engine=profile.engine)
        except ConfigError as error:
            wrong = {finding.flag for finding in findings if finding.severity == "error" and finding.flag}
            if not any(f"--{flag}" in error.message for flag in wrong):  # else it is said already
                findings.append(Finding("error", f"it would not start: {error.message}", error.remedy))
    else:
        findings.append(Finding("note", f"no memory rules for {profile.engine}: what fits is not known", ""))
    count = scenario.replicas or profile.replicas
    return Plan(
        profile=profile,
        gpu=gpu,
        engine_version=checked.version,
        shape=where,
        replica=replica,
        fleet=_forecast(replica, count, scenario) if replica else None,
        launches=_launches(profile, scenario, count, replica),
        findings=tuple(sorted(findings, key=lambda finding: ("error", "warn", "note").index(finding.severity))),
        checked=checked.sentence,
    )


def side_by_side(scenario: Scenario) -> list[Plan]:
    """The launch as found and the fastest shipped profile for that GPU, for as many replicas as the latter names."""
    gpu = find_gpu(scenario.gpu)
    ours = [one.profile for one in profiles.listing() if one.where == "shipped" and one.name != profiles.AS_FOUND]
    plans = [plan(p, scenario) for p in ours if p is not None and find_gpu(p.gpu).name == gpu.name]
    best = max(plans, key=lambda planned: planned.fleet.tokens_per_second if planned.fleet else 0.0, default=None)
    if best is None:
        raise ConfigError(f"no shipped profile is for {gpu.name}", "name one: --profile, see sevenfold profile list")
    same = msgspec.structs.replace(scenario, replicas=len(best.launches))
    return [plan(profiles.load(profiles.AS_FOUND), same), plan(best.profile, same)]


def _check(profile: Profile, scenario: Scenario) -> _Checked:
    """The flags against the installed engine, where it is the version in question, else against the rules alone.

    Without a version named, the one that is installed counts: it is what would be started."""
    engine, python = profile.engine, scenario.python or sys.executable
    here = installed(python, engine) if engine in PROGRAMS else ""
    version = scenario.engine_version or here or profile.engine_version
    known = known_flags(python, engine, version, PROGRAMS[engine], None) if here and version == here else None
    findings = check_flags(engine, version, profile.flags, known)
    findings += advisories(engine, version, profile.flags, profile.env)
    if version != profile.engine_version:
        sentence = f"the profile was written for {engine} {profile.engine_version}, this plan is for {version}"
        renew = f"sevenfold profile new NAME --from {profile.name} --engine-version {version}"
        findings.append(Finding("note", sentence, renew))
    if known is not None:
        return _Checked(version, findings, f"flags checked against {engine} {version} itself, in {python}")
    if not here:
        why = f"{engine} is not installed in {python}"
    elif version != here:
        why = f"{engine} {here} is installed in {python}, not {version}"
    else:
        why = f"{engine} {here} in {python} did not tell its flags"
    return _Checked(version, findings, f"flags checked against what is known of {engine} {version} alone: {why}")


def _forecast(replica: ReplicaPlan, count: int, scenario: Scenario) -> Forecast:
    fleet = plan_fleet(replica, count, scenario.rows or 0, scenario.lengths, scenario.price)
    known = scenario.rows is not None
    return Forecast(fleet.tokens_per_second, fleet.hours if known else None, fleet.cost if known else None)


def _shape(profile: Profile, named: Path | None) -> tuple[ModelShape, str]:
    """The shape and where it was found: as named, in the profile's own folder, or shipped."""
    if named is not None:
        path = named.expanduser()
        return _read_shape(path / "config.json" if path.is_dir() else path)
    local = Path(profile.model).expanduser() / "config.json"
    if local.is_file():
        return _read_shape(local)
    shipped = resources.files("sevenfold").joinpath("profiles", "shapes", f"{_bare(profile.model).lower()}.json")
    if shipped.is_file():
        return _read_shape(shipped, f"the shipped shape of {_bare(profile.model)}")
    raise ConfigError(
        f"the shape of {profile.model} is not known here: no such folder, and no shape of it is shipped",
        "--model FOLDER or --model config.json, as the model's page has it",
    )


def _read_shape(file: Path | Traversable, where: str = "") -> tuple[ModelShape, str]:
    where = where or str(file)
    try:
        config = msgspec.json.decode(file.read_text(encoding="utf-8"), type=JSON)
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise ConfigError(f"{where}: not a model's config.json: {error}", "--model FOLDER or config.json") from None
    return model_shape(config, where), where


def _bare(model: str) -> str:
    """The model's own name: 'Qwen3.6-27B' of 'Qwen/Qwen3.6-27B', of a folder, or of 'hf:Qwen/Qwen3.6-27B@main'."""
    return model.partition("@")[0].rstrip("/").rpartition("/")[2]


def _launches(profile: Profile, scenario: Scenario, count: int, replica: ReplicaPlan | None) -> tuple[Launch, ...]:
    engine = ENGINES[profile.engine]
    width = replica.gpus if replica else 1
    base = profile.base_port or BASE_PORT
    folder = scenario.model if scenario.model is not None and scenario.model.is_dir() else None
    launches: list[Launch] = []
    for place in range(count):
        gpus = tuple(str(place * width + i) for i in range(width))
        serve = Serve(
            model=str(folder.absolute()) if folder else profile.model,
            model_name=_bare(profile.model),
            port=base + place,
            gpu=",".join(gpus),
            threads=0,
            slots=replica.max_running_requests if replica else 64,
            context=0,  # the profile's flags say it
            python=scenario.python or sys.executable,
            flags=profile.flags,
        )
        command = engine.command(serve)
        whole = Command(command.argv, {VARIABLE: ",".join(gpus), **profile.env, **command.env})
        launches.append(Launch(str(place), serve.model_name, serve.port, engine.ready_path, gpus, whole))
    return tuple(launches)
