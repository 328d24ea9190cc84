"""The plan against logs of real servers: one H200, SGLang 0.5.11."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sevenfold.capacity.gpu import GIB, find_gpu
from sevenfold.capacity.model import model_shape
from sevenfold.capacity.plan import ReplicaPlan, plan_replica
from sevenfold.capacity.roofline import Lengths
from tests.capacity.shapes import QWEN36_27B

RUNS = json.loads(Path(__file__).with_name("measured.json").read_text())["runs"]
SHAPE = model_shape(QWEN36_27B)

each_run = pytest.mark.parametrize("run", RUNS, ids=lambda run: run["name"])


def planned(run: dict[str, Any]) -> ReplicaPlan:
    lengths = Lengths(prompt=512, output=512, accepted=run["accepted"])
    return plan_replica(SHAPE, find_gpu("H200"), run["flags"], "0.5.11", lengths)


def logged(run: dict[str, Any], pattern: str) -> float:
    found = re.search(pattern, "\n".join(run["log"]))
    return float(found.group(1)) if found else 0.0


@each_run
def test_running_requests_and_state_slots_are_exact(run):
    plan = planned(run)
    assert plan.max_running_requests == logged(run, r"max_running_requests=(\d+)")
    assert plan.state_slots == logged(run, r"max_mamba_cache_size: (\d+)")
    assert plan.sustained == plan.max_running_requests
    assert not plan.estimated


@each_run
def test_kv_tokens_and_pools_are_within_1_percent(run):
    plan = planned(run)
    assert plan.kv_tokens == pytest.approx(logged(run, r"max_total_num_tokens=(\d+)"), rel=0.01)
    keys, values = logged(run, r"K size: ([\d.]+)"), logged(run, r"V size: ([\d.]+)")
    assert plan.kv_bytes / GIB == pytest.approx(keys + values, rel=0.01)
    states = logged(run, r"[^_]conv_state size: ([\d.]+)") + logged(run, r"[^_]ssm_state size: ([\d.]+)")
    assert plan.state_bytes / GIB == pytest.approx(states, rel=0.01)


@each_run
def test_the_states_of_drafts_are_within_1_percent(run):
    logged_bytes = logged(run, r"intermediate_ssm_state_cache size: ([\d.]+)")
    logged_bytes += logged(run, r"intermediate_conv_window_cache size: ([\d.]+)")
    said = next((s for s in planned(run).sentences if "states of drafts" in s), "states of drafts 0.0 GiB")
    found = re.search(r"states of drafts ([\d.]+) GiB", said)
    assert found is not None
    assert float(found.group(1)) == pytest.approx(logged_bytes, rel=0.01)


@each_run
def test_weights_are_within_2_percent(run):
    """The plan counts the prediction layer too (0.79 GiB), where it is used; this log line does not."""
    plan = planned(run)
    drafts = SHAPE.draft_bytes() if "speculative-algorithm" in run["flags"] else 0
    assert (plan.weights_bytes - drafts) / GIB == pytest.approx(logged(run, r"mem usage=([\d.]+)"), rel=0.02)


@each_run
def test_tokens_per_second_are_within_25_percent(run):
    speed = planned(run).tokens_per_second
    assert speed.decode == pytest.approx(run["decode"], rel=0.25)
    if run["end_to_end"]:
        assert speed.end_to_end == pytest.approx(run["end_to_end"], rel=0.25)
    if run["prefill"]:
        assert speed.prefill == pytest.approx(run["prefill"], rel=0.25)


def test_the_profiles_rank_as_measured():
    ranked = [run for run in RUNS if run["end_to_end"]]
    speeds = [planned(run).tokens_per_second.end_to_end for run in ranked]
    assert speeds == sorted(speeds)
