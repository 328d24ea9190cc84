"""Real llama.cpp replicas: they come up, answer, come back, and whoever is killed, nothing is left."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from sevenfold import fleet
from sevenfold.config import Fleet, RunSpec, Sampling
from sevenfold.engines import ENGINES
from sevenfold.engines.base import Question
from sevenfold.errors import ReplicaError
from sevenfold.fleet.http import carry
from sevenfold.fleet.plan import FleetPlan, plan_for, write_plan
from sevenfold.node.models import Model
from sevenfold.types import Completion, Endpoint, FleetStatus, Message
from tests.fleet.scan import all_ready, left_of, until, until_nothing_is_left, wait_ended

pytestmark = pytest.mark.llamacpp

OWNER = """
import os, sys
from pathlib import Path
import msgspec
from sevenfold import fleet
from sevenfold.fleet.plan import read_plan
from sevenfold.node.process import identity
run = Path(sys.argv[1])
plan = msgspec.structs.replace(read_plan(run), owner=identity(os.getpid()))
fleet.start(run, plan)
print("started", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def two(run: Path, smollm2: Model) -> FleetPlan:
    return plan_for(RunSpec(fleet=Fleet(replicas=2, context=512)), smollm2, run)


def ask(endpoint: Endpoint) -> Completion:
    question = Question(
        messages=(Message("user", "What is the capital of France?"),),
        model=endpoint.model,
        sampling=Sampling(temperature=0.0, max_tokens=24, seed=1),
        thinking=False,
        request_id="0" * 32,
    )
    return asyncio.run(carry(endpoint.url, ENGINES[endpoint.engine].exchange(question), 60))


def pids(status: FleetStatus) -> list[int]:
    return [replica.pid for replica in status.replicas if replica.pid]


def test_two_replicas_come_up_answer_and_stop(run: Path, two: FleetPlan) -> None:
    fleet.start(run, two)
    status = until(run, all_ready)
    assert len(set(pids(status))) == 2
    first, second = (ask(endpoint) for endpoint in status.endpoints)
    assert first.answer
    assert (first.answer, first.completion_token_ids) == (second.answer, second.completion_token_ids)
    assert first.model == "smollm2-135m-instruct"
    server = asyncio.run(fleet.describe(status.endpoints[0]))
    assert (server.slots, server.context) == (4, 512)
    assert server.version.startswith("xllamacpp ")
    assert fleet.stop(run) == ["replica 0", "replica 1", "supervisor"]
    assert left_of(run) == []
    with pytest.raises(ReplicaError):
        ask(status.endpoints[0])


def test_a_killed_replica_comes_back(run: Path, two: FleetPlan) -> None:
    fleet.start(run, two)
    before = until(run, all_ready)
    os.kill(pids(before)[1], signal.SIGKILL)
    waiting = until(run, lambda s: s.replicas[1].phase == "backoff")
    assert waiting.endpoints == before.endpoints[:1]
    assert waiting.replicas[1].reason.startswith("killed")
    after = until(run, all_ready)
    assert [r.restarts for r in after.replicas] == [0, 1]
    assert after.endpoints == before.endpoints
    assert ask(after.endpoints[1]).answer


def test_a_killed_supervisor_leaves_nothing(run: Path, two: FleetPlan) -> None:
    fleet.start(run, msgspec.structs.replace(two, unattended=0.2))
    status = until(run, all_ready)
    os.kill(status.supervisor, signal.SIGKILL)
    wait_ended(status.supervisor, *pids(status))
    until_nothing_is_left(run)
    after = fleet.status(run)
    assert after
    assert (after.ended, [r.phase for r in after.replicas]) == ("the supervisor was killed", ["stopped"] * 2)


def test_a_killed_owner_leaves_nothing(run: Path, two: FleetPlan) -> None:
    (run / "fleet").mkdir()
    write_plan(run, two)
    argv = [sys.executable, "-c", OWNER, str(run)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout
        assert owner.stdout.readline() == b"started\n"
        status = until(run, all_ready)
        owner.kill()
    wait_ended(status.supervisor, *pids(status))
    assert left_of(run) == []
    after = fleet.status(run)
    assert after
    assert after.ended == f"process {owner.pid}, for which the replicas ran, has ended"


def test_a_broken_model_says_so(run: Path, two: FleetPlan) -> None:
    broken = run / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(1000))
    replicas = tuple(msgspec.structs.replace(serve, model=str(broken)) for serve in two.replicas)
    fleet.start(run, msgspec.structs.replace(two, replicas=replicas))
    assert "cannot load the model" in until(run, lambda s: bool(s.ended)).ended
