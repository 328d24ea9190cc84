"""A run's spec as questions to the machine, and the probes that need more rooms than one: what is known of the engine's
version, and the run's own settings against it.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from sevenfold.config import RunSpec
from sevenfold.engines import rules, sglang
from sevenfold.engines.flags import Value, given
from sevenfold.errors import ConfigError
from sevenfold.fleet.plan import NEEDS_GPU
from sevenfold.node import probes_engine, probes_gpus, probes_machine, probes_storage
from sevenfold.node.asked import Subject, Wanted
from sevenfold.node.doctor import Finding, Level, Report, examine, ok, probe
from sevenfold.node.models import here

MODULES = (probes_gpus, probes_engine, probes_storage, probes_machine)
"""Imported for their probes."""

LEVELS: Mapping[rules.Severity, Level] = {"error": "fail", "warn": "warn", "note": "note"}


def diagnose(spec: RunSpec, output: Path) -> tuple[Report, ...]:
    """Every probe's report. Starts nothing, downloads nothing, leaves nothing."""
    return examine(Subject(wanted(spec, output)))


@probe("advisories")
def advised(subject: Subject) -> Iterable[Finding]:
    """known faults of the engine's version, and flags that it would not take"""
    wanted = subject.wanted
    installed = subject.installed() if wanted.starts else None
    if installed is None or not installed.version:
        return []
    return known(wanted.engine, installed.version, wanted.flags, wanted.env)


def known(engine: str, version: str, flags: Mapping[str, Value], env: Mapping[str, str]) -> list[Finding]:
    """Pure."""
    try:
        found = rules.check_flags(engine, version, flags) + rules.advisories(engine, version, flags, env)
    except ConfigError as error:  # a development build has no version to compare
        return [Finding("note", error.message, error.remedy)]
    said = [Finding(LEVELS[each.severity], each.sentence, each.remedy) for each in found]
    return said or [ok(f"nothing is known against {engine} {version} with these flags")]


def wanted(spec: RunSpec, output: Path) -> Wanted:
    fleet = spec.fleet
    starts = not fleet.endpoints and fleet.engine != "openai"
    ports = tuple(fleet.base_port + i for i in range(fleet.replicas)) if fleet.base_port and starts else ()
    flags = given(fleet.flags)
    inner = tuple(sglang.nccl_port(port) for port in ports) if fleet.engine == "sglang" else ()
    tensor = [flags[name] for name in sglang.TENSOR_PARALLEL if name in flags]
    return Wanted(
        engine=fleet.engine,
        needs_gpu=fleet.engine in NEEDS_GPU,
        starts=starts,
        replicas=fleet.replicas,
        gpus_each=int(tensor[0]) if tensor else 1,
        python=fleet.python or sys.executable,
        model=here(spec.model) if starts and fleet.engine != "fake" else None,
        model_said=spec.model,
        output=output,
        ports=ports,
        inner_ports=inner,
        flags=flags,
        env=dict(os.environ),
    )
