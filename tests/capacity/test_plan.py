import pytest

from sevenfold.capacity.gpu import find_gpu
from sevenfold.capacity.model import model_shape
from sevenfold.capacity.plan import plan_fleet, plan_replica
from sevenfold.capacity.roofline import Lengths
from sevenfold.errors import ConfigError
from tests.capacity.shapes import QWEN3_8B, QWEN36_27B

HYBRID = model_shape(QWEN36_27B)
THINKING = Lengths(prompt=180, output=2000, spread=0.8)
MANY = {"disable-radix-cache": True, "max-running-requests": 256, "mem-fraction-static": 0.9, "cuda-graph-max-bs": 256}


def test_the_kv_cache_binds_where_the_live_tokens_do_not_fit():
    plan = plan_replica(HYBRID, find_gpu("H200"), MANY, "0.5.11", Lengths(prompt=4000, output=8000))
    assert plan.max_running_requests == 256
    assert plan.sustained == plan.kv_tokens // 8000 == 76
    assert plan.binding_limit.startswith(f"{plan.kv_tokens:,} KV tokens hold 76 requests of 8,000 live tokens; ")


def test_an_unmeasured_gpu_or_version_is_an_estimate():
    measured = plan_replica(HYBRID, find_gpu("H200"), MANY, "0.5.11", THINKING)
    assert not measured.estimated
    for gpu, version in (("B200", "0.5.11"), ("H200", "0.5.23")):
        plan = plan_replica(HYBRID, find_gpu(gpu), MANY, version, THINKING)
        assert plan.estimated
        assert plan.sentences[-1].startswith("estimated: ")


def test_speculations_yield_is_said_to_be_an_assumption():
    flags = {**MANY, "speculative-algorithm": "NEXTN", "max-running-requests": 64}
    plan = plan_replica(HYBRID, find_gpu("H200"), flags, "0.5.11", THINKING)
    assert any("taken to yield 2.6 tokens a step" in sentence for sentence in plan.sentences)


def test_a_fleet_takes_the_rows_over_its_speed():
    plan = plan_replica(HYBRID, find_gpu("H200"), MANY, "0.5.11", THINKING)
    fleet = plan_fleet(plan, 7, 902_087, THINKING, gpu_hour=4.0)
    assert fleet.tokens_per_second == pytest.approx(7 * plan.tokens_per_second.end_to_end)
    assert fleet.hours == pytest.approx(902_087 * 2000 / fleet.tokens_per_second / 3600)
    assert fleet.cost == pytest.approx(fleet.hours * 7 * 4.0)
    assert plan_fleet(plan, 1, 10, THINKING).cost is None
    with pytest.raises(ConfigError, match="nothing to plan"):
        plan_fleet(plan, 0, 10, THINKING)


def test_other_engines():
    plan = plan_replica(model_shape(QWEN3_8B), find_gpu("L40S"), {}, "0.33.0", THINKING, engine="vllm")
    assert (plan.estimated, plan.state_slots) == (True, 0)
    with pytest.raises(ConfigError, match="no memory rules for engine 'llamacpp'"):
        plan_replica(HYBRID, find_gpu("H200"), {}, "1", THINKING, engine="llamacpp")
