from pathlib import Path

import msgspec
import pytest

from sevenfold import fleet
from sevenfold.config import Fleet, RunSpec
from sevenfold.errors import ConfigError
from sevenfold.fleet.plan import Expected, FleetPlan, plan_for, plan_path, read_plan, serves, slots_of, write_plan
from sevenfold.node.models import Model
from sevenfold.node.process import Identity
from sevenfold.types import FleetStatus, ReplicaStatus
from tests.fleet.scan import all_ready, until

MODEL = Model(Path("/models/m.gguf"), "m", {})


def test_each_replica_gets_one_gpu_unchanged() -> None:
    found = serves(Fleet(replicas=2, base_port=30000), MODEL, ("GPU-1a2b", "GPU-3c4d", "GPU-5e"), 16)
    assert [(s.gpu, s.port, s.threads) for s in found] == [("GPU-1a2b", 30000, 8), ("GPU-3c4d", 30001, 8)]


def test_more_replicas_than_gpus_are_refused_with_the_count() -> None:
    with pytest.raises(ConfigError, match="3 replicas need a GPU each and 2 are visible") as error:
        serves(Fleet(replicas=3), MODEL, ("2", "3"), 16)
    assert error.value.remedy == "--replicas 2"


def test_a_tensor_parallel_replica_gets_a_group_of_gpus() -> None:
    fleet = Fleet(engine="sglang", replicas=2, flags={"tp_size": 2})
    found = serves(fleet, MODEL, ("4", "5", "6", "7"), 16)
    assert [(s.gpu, s.port, s.slots) for s in found] == [("4,5", 30000, 0), ("6,7", 30001, 0)]
    with pytest.raises(ConfigError, match="2 replicas need 2 GPUs each and 3 are visible") as error:
        serves(fleet, MODEL, ("4", "5", "6"), 16)
    assert error.value.remedy == "--replicas 1"


@pytest.mark.parametrize(
    ("fleet", "said", "expected"),
    [
        (Fleet(engine="sglang"), 16, 16),
        (Fleet(engine="sglang", slots=9), 16, 9),
        (Fleet(engine="vllm", flags={"max-num-seqs": 48}), None, 48),
        (Fleet(engine="vllm"), None, 256),
    ],
)
def test_slots_are_what_the_server_says_it_got(fleet: Fleet, said: int | None, expected: int) -> None:
    assert slots_of(serves(fleet, MODEL, ("0",), 1)[0], said) == expected


def test_without_gpus_threads_are_divided() -> None:
    found = serves(Fleet(replicas=2), MODEL, (), 5)
    assert [(s.gpu, s.port, s.threads, s.slots) for s in found] == [(None, 0, 2, 4)] * 2


def test_the_specs_words_are_kept() -> None:
    fleet = Fleet(slots=9, context=77, python="/env/bin/python", flags={"n_batch": 64})
    found = serves(fleet, MODEL, (), 1)[0]
    assert (found.slots, found.context, found.python, found.flags) == (9, 77, "/env/bin/python", {"n_batch": 64})
    assert (found.model, found.model_name) == ("/models/m.gguf", "m")


def test_the_fake_engine_takes_no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    found = plan_for(RunSpec(fleet=Fleet(engine="fake", replicas=7)), MODEL, tmp_path)
    assert [s.gpu for s in found.replicas] == [None] * 7


def test_a_plan_reads_back(tmp_path: Path) -> None:
    (tmp_path / "fleet").mkdir()
    plan = FleetPlan("llamacpp", str(tmp_path), serves(Fleet(), MODEL, (), 1), 9.0, Identity(5, 6.5))
    write_plan(tmp_path, plan)
    assert read_plan(tmp_path) == plan


def test_plans_are_alike_whoever_owns_them(tmp_path: Path) -> None:
    plan = FleetPlan("llamacpp", str(tmp_path), serves(Fleet(), MODEL, (), 1), 9.0)
    assert plan.is_like(msgspec.structs.replace(plan, owner=Identity(5, 6.5)))
    assert not plan.is_like(msgspec.structs.replace(plan, engine="fake"))


def test_no_plan(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a fleet's plan"):
        read_plan(tmp_path)
    plan_path(tmp_path).parent.mkdir()
    plan_path(tmp_path).write_text("{}")
    with pytest.raises(ConfigError, match="not a fleet's plan"):
        read_plan(tmp_path)


def test_an_engine_that_needs_a_gpu_is_not_planned_without_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(ConfigError, match="no GPU visible"):
        plan_for(RunSpec(fleet=Fleet(engine="sglang")), MODEL, tmp_path)


GOT = ReplicaStatus("0", "ready", "", "", "sglang", 16, runs=16, kv_tokens=576_030)


@pytest.mark.parametrize(
    ("runs", "kv_tokens", "off"), [(16, 577_766, False), (16, 610_000, True), (48, 577_766, True), (16, 548_700, False)]
)
def test_the_plan_is_held_against_what_the_server_got(runs: int, kv_tokens: int, off: bool) -> None:
    status = msgspec.structs.replace(GOT, planned_runs=runs, planned_kv_tokens=kv_tokens)
    assert status.plan_and_got == f"plan {runs} running, {kv_tokens:,} KV tokens; got 16, 576,030"
    assert status.is_off_plan is off
    assert status.warning == (f"not as planned: {status.plan_and_got}" if off else "")


def test_without_a_plan_or_a_word_of_the_server_nothing_is_compared() -> None:
    assert (GOT.plan_and_got, GOT.is_off_plan) == ("", False)
    silent = msgspec.structs.replace(GOT, runs=None, planned_runs=16, planned_kv_tokens=9)
    assert (silent.plan_and_got, silent.is_off_plan) == ("", False)
    short = msgspec.structs.replace(GOT, kv_tokens=None, planned_runs=48, planned_kv_tokens=9)
    assert (short.plan_and_got, short.is_off_plan) == ("plan 48 running; got 16", True)


def test_a_draining_replica_gets_nothing_new_and_keeps_what_it_has() -> None:
    replicas = (GOT, msgspec.structs.replace(GOT, name="1", phase="draining"))
    assert [(e.replica, e.slots) for e in FleetStatus(1, 0.0, replicas).endpoints] == [("0", 16), ("1", 0)]


def test_what_the_server_got_is_published_beside_the_plan(run: Path, stub_plan: FleetPlan) -> None:
    fleet.start(run, msgspec.structs.replace(stub_plan, expected=Expected(4, 1000)))
    replica = until(run, all_ready).replicas[0]
    assert (replica.planned_runs, replica.runs, replica.planned_kv_tokens, replica.kv_tokens) == (4, 1, 1000, None)
    assert "not as planned: plan 4 running; got 1" in replica.warning
    assert "replica not as planned" in (run / "events.jsonl").read_text()
