from pathlib import Path

import msgspec
import pytest

from sevenfold.config import Fleet, RunSpec
from sevenfold.errors import ConfigError
from sevenfold.fleet.plan import FleetPlan, plan_for, plan_path, read_plan, serves, slots_of, write_plan
from sevenfold.node.models import Model
from sevenfold.node.process import Identity

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
