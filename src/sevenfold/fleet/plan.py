"""What a supervisor is to start: one Serve per replica, from the spec and this machine's GPUs and CPUs.

The plan is a file, RUN/fleet/plan.json, so that the supervisor needs nothing else.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from sevenfold.config import Fleet, RunSpec
from sevenfold.engines.base import Serve
from sevenfold.engines.flags import given
from sevenfold.errors import ConfigError
from sevenfold.fleet.canary import Canary
from sevenfold.fleet.liveness import PATIENCE
from sevenfold.ledger import atomic_write
from sevenfold.node import cpus
from sevenfold.node.gpus import VARIABLE, visible_gpus
from sevenfold.node.models import Model
from sevenfold.node.process import Identity
from sevenfold.types import FleetStatus

SLOTS = {"llamacpp": 4, "fake": 64}
"""Requests in flight per replica where the spec names no number and the server does not choose it.

llama.cpp, SmolLM2-135M Q4_1 on one thread, 128 tokens after a prompt of 50, tokens generated per CPU-second with 1, 2,
4, 8, 16 slots busy: 71, 69, 83, 90, 97 (one pass, on a shared machine of 2 cores). From 4 to 8 each request gets half
as fast and the context twice as large, for a twelfth more. The number for 'fake' is a choice, not a measurement."""

NO_GPU = frozenset({"fake"})
"""Engines that use none, however many there are."""

GPU_ENGINES = frozenset({"sglang", "vllm"})
"""Engines that run as many requests as their memory allows and say after the start how many that is."""

FIRST_PORT = 30000
"""Where the servers of GPU engines are looked for by habit: SGLang's own default."""

TENSOR_PARALLEL = ("tp", "tp-size", "tensor-parallel-size")

RUNNING = ("max-running-requests", "max-num-seqs")
UNSAID = 256
"""Requests that vLLM runs at once where no flag says otherwise; it does not tell."""


NEEDS_GPU = frozenset({"sglang"})
"""Engines that cannot do without. vLLM has builds for CPUs; llama.cpp runs on both."""


class Expected(msgspec.Struct, frozen=True):
    """What the plan says that each replica will say of itself."""

    runs: int
    kv_tokens: int


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
    patience: float = PATIENCE
    """Seconds without any progress after which a replica with requests in flight is suspected to hang."""
    unattended: float = 60.0
    """Seconds that replicas outlive their supervisor: a new one comes within a second or two where anybody follows."""
    named_ports: bool = False
    """The user named the ports: none may move."""
    canary: Canary = Canary()
    expected: Expected | None = None
    """None where nothing is known of the model's shape or the GPU."""

    def is_like(self, other: "FleetPlan") -> bool:
        """Whether both want the same replicas, whoever owns them and whatever is expected of them."""
        mine, theirs = (
            msgspec.structs.replace(plan, owner=None, canary=Canary(), expected=None) for plan in (self, other)
        )
        return mine == theirs


def plan_for(
    spec: RunSpec,
    model: Model,
    run: Path,
    owner: Identity | None = None,
    canary: Canary | None = None,
    expected: Expected | None = None,
) -> FleetPlan:
    """`canary`: by default the built-in prompt, with the spec's own thinking.

    ConfigError where more replicas are wanted than GPUs are visible, or none is and the engine needs one."""
    engine = spec.fleet.engine
    gpus = () if engine in NO_GPU else visible_gpus(needed=engine in NEEDS_GPU)
    replicas = serves(spec.fleet, model, gpus, cpus.available())
    return FleetPlan(
        engine=spec.fleet.engine,
        run=str(run.absolute()),
        replicas=replicas,
        start_timeout=spec.fleet.start_timeout,
        named_ports=spec.fleet.base_port > 0,
        owner=owner,
        canary=canary or canary_for(spec),
        expected=expected,
    )


def canary_for(spec: RunSpec) -> Canary:
    asked = spec.conversation
    return Canary(thinking=asked.thinking, template_kwargs=asked.template_kwargs, every=spec.fleet.canary_every)


def serves(fleet: Fleet, model: Model, gpus: Sequence[str], threads: int) -> tuple[Serve, ...]:
    """Pure. `threads`: what all replicas share."""
    groups = grouped(fleet, gpus)
    first = fleet.base_port or (FIRST_PORT if fleet.engine in GPU_ENGINES else 0)
    return tuple(
        Serve(
            model=str(model.path),
            model_name=model.name,
            port=first + i if first else 0,
            gpu=groups[i] if groups else None,
            threads=cpus.per_replica(fleet.replicas, threads),
            slots=fleet.slots or SLOTS.get(fleet.engine, 0),
            context=fleet.context,
            python=fleet.python or sys.executable,
            flags=fleet.flags,
            env=fleet.env,
        )
        for i in range(fleet.replicas)
    )


def grouped(fleet: Fleet, gpus: Sequence[str]) -> tuple[str, ...]:
    """The GPUs of each replica, as CUDA_VISIBLE_DEVICES takes them; empty on a machine without."""
    size = next((int(value) for name, value in given(fleet.flags).items() if name in TENSOR_PARALLEL), 1)
    if not gpus:
        return ()
    if fleet.replicas * size > len(gpus):
        each = "a GPU" if size == 1 else f"{size} GPUs"
        seen = f"{len(gpus)} are visible ({VARIABLE}={','.join(gpus)})"
        remedy = f"--replicas {len(gpus) // size}" if len(gpus) >= size else f"a tensor parallel size of {len(gpus)}"
        raise ConfigError(f"{fleet.replicas} replicas need {each} each and {seen}", remedy)
    return tuple(",".join(gpus[i * size : (i + 1) * size]) for i in range(fleet.replicas))


def slots_of(serve: Serve, said: int | None) -> int:
    """Requests to keep in flight: the user's number, else what the server says it runs at once, else what its flags
    say."""
    flags = given(serve.flags)
    asked = next((int(flags[name]) for name in RUNNING if name in flags), UNSAID)
    return serve.slots or said or asked


def write_plan(run: Path, plan: FleetPlan) -> None:
    atomic_write(plan_path(run), msgspec.json.format(msgspec.json.encode(plan)) + b"\n", durable=False)


def read_plan(run: Path) -> FleetPlan:
    """ConfigError where there is none that we can read."""
    path = plan_path(run)
    try:
        return msgspec.json.decode(path.read_bytes(), type=FleetPlan)
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path}: not a fleet's plan: {error}", f"sevenfold up -o {run}") from None


def published(run: Path) -> FleetStatus | None:
    """What a supervisor said last, whether it lives or not; None where none ever spoke."""
    try:
        return msgspec.json.decode(status_path(run).read_bytes(), type=FleetStatus)
    except (OSError, msgspec.DecodeError):
        return None


def plan_path(run: Path) -> Path:
    return run / "fleet" / "plan.json"


def supervisor_lock(run: Path) -> Path:
    """Held by the supervisor while it lives."""
    return run / "fleet" / "supervisor.lock"


def request_path(run: Path, replica: str) -> Path:
    """What somebody asks the supervisor to do with one replica: a file that holds one word; it takes it away."""
    return run / "fleet" / f"request-{replica}"


def status_path(run: Path) -> Path:
    return run / "fleet" / "status.json"
