"""What a supervisor is to start: one Serve per replica, from the spec and this machine's GPUs and CPUs.

The plan is a file, RUN/fleet/plan.json, so that the supervisor needs nothing else.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from sevenfold.config import Fleet, RunSpec
from sevenfold.engines.base import Serve
from sevenfold.errors import ConfigError
from sevenfold.ledger import atomic_write
from sevenfold.node import cpus
from sevenfold.node.gpus import VARIABLE, visible_gpus
from sevenfold.node.models import Model
from sevenfold.node.process import Identity

SLOTS = {"llamacpp": 4, "fake": 64}
"""Requests in flight per replica where the spec names no number.

llama.cpp, SmolLM2-135M Q4_1 on one thread, 128 tokens after a prompt of 50, tokens generated per CPU-second with 1, 2,
4, 8, 16 slots busy: 71, 69, 83, 90, 97 (one pass, on a shared machine of 2 cores). From 4 to 8 each request gets half
as fast and the context twice as large, for a twelfth more. The number for 'fake' is a choice, not a measurement."""

NO_GPU = frozenset({"fake"})
"""Engines that use none, however many there are."""


NEEDS_GPU = frozenset({"sglang"})
"""Engines that cannot do without. vLLM has builds for CPUs; llama.cpp runs on both."""


class FleetPlan(msgspec.Struct, frozen=True):
    engine: str
    run: str
    """The folder in which the fleet lives."""
    replicas: tuple[Serve, ...]
    """Named "0", "1", ... by their place. `port` is a wish: the first one to try, 0 for any."""
    start_timeout: float
    """Seconds that a replica's log may stand still before its first answer."""
    owner: Identity | None = None
    """The process with which the fleet ends; None: it stays until it is stopped."""

    def is_like(self, other: "FleetPlan") -> bool:
        """Whether both want the same replicas, whoever owns them."""
        return msgspec.structs.replace(self, owner=None) == msgspec.structs.replace(other, owner=None)


def plan_for(spec: RunSpec, model: Model, run: Path, owner: Identity | None = None) -> FleetPlan:
    """ConfigError where more replicas are wanted than GPUs are visible, or none is and the engine needs one."""
    engine = spec.fleet.engine
    gpus = () if engine in NO_GPU else visible_gpus(needed=engine in NEEDS_GPU)
    replicas = serves(spec.fleet, model, gpus, cpus.available())
    return FleetPlan(spec.fleet.engine, str(run.absolute()), replicas, spec.fleet.start_timeout, owner)


def serves(fleet: Fleet, model: Model, gpus: Sequence[str], threads: int) -> tuple[Serve, ...]:
    """Pure. `threads`: what all replicas share."""
    if gpus and fleet.replicas > len(gpus):
        raise ConfigError(
            f"{fleet.replicas} replicas need a GPU each and {len(gpus)} are visible ({VARIABLE}={','.join(gpus)})",
            f"--replicas {len(gpus)}",
        )
    return tuple(
        Serve(
            model=str(model.path),
            model_name=model.name,
            port=fleet.base_port + i if fleet.base_port else 0,
            gpu=gpus[i] if gpus else None,
            threads=cpus.per_replica(fleet.replicas, threads),
            slots=fleet.slots or SLOTS.get(fleet.engine, 64),
            context=fleet.context,
            python=fleet.python or sys.executable,
            flags=fleet.flags,
        )
        for i in range(fleet.replicas)
    )


def write_plan(run: Path, plan: FleetPlan) -> None:
    atomic_write(plan_path(run), msgspec.json.format(msgspec.json.encode(plan)) + b"\n", durable=False)


def read_plan(run: Path) -> FleetPlan:
    """ConfigError where there is none that we can read."""
    path = plan_path(run)
    try:
        return msgspec.json.decode(path.read_bytes(), type=FleetPlan)
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path}: not a fleet's plan: {error}", f"sevenfold up -o {run}") from None


def plan_path(run: Path) -> Path:
    return run / "fleet" / "plan.json"


def status_path(run: Path) -> Path:
    return run / "fleet" / "status.json"
