"""The same with real llama.cpp replicas of SmolLM2 on the CPU."""

import os
import random
import signal
import sys
from pathlib import Path

import pytest

from sevenfold.node.process import marked
from tests.e2e.rig import (
    audited,
    kill,
    nothing_runs,
    report,
    rows,
    sevenfold,
    started,
    until,
    until_committed,
    write_prompts,
)

pytestmark = pytest.mark.llamacpp

SPEC = """
[fleet]
engine = "llamacpp"
replicas = 2
context = 1024
[sampling]
max_tokens = {max_tokens}
[conversation]
thinking = false # SmolLM2 does not think
[judge.limits]
truncated = 1.0 # few tokens on purpose
trivial = 1.0
repetition_loop = 1.0
duplicate = 1.0
"""
DATA = Path(os.environ.get("SEVENFOLD_DATA", Path(__file__).parents[3] / "shared" / "data"))
GSM8K = DATA / "gsm8k_test.jsonl"


def test_a_real_run_with_driver_and_replica_killed(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "in.jsonl", [f"Name {i} animals and say where they live." for i in range(2, 42)])
    spec, run = tmp_path / "run.toml", tmp_path / "run"
    spec.write_text(SPEC.format(max_tokens=24))
    with started("run", prompts, "-c", spec, "-o", run) as driver:
        until_committed(run, 6)
        kill(driver)
    until(lambda: nothing_runs(run), "the replicas end with their driver")
    with started("resume", run) as driver:
        until_committed(run, 14)
        os.kill(next(one.process.pid for one in marked(run) if one.replica == "1"), signal.SIGKILL)
        driver.communicate(timeout=120)
        assert driver.returncode == 0
    audited(run, prompts)
    found = rows(run)
    assert len(found) == 40
    assert all(row["answer"] and row["usage"]["completion_tokens"] <= 24 for row in found)
    assert report("status", run)["replicas"][1]["restarts"] == 1
    assert nothing_runs(run)


def test_up_status_logs_down_from_other_shells(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet"
    up = sevenfold("up", "-o", fleet, "--replicas", "2")
    assert len(up.stdout.split()) == 2
    replicas = report("status", fleet)["replicas"]
    assert [replica["phase"] for replica in replicas] == ["ready", "ready"]
    assert "listening" in sevenfold("logs", fleet, "0").stdout
    prompts = write_prompts(tmp_path / "in.jsonl", ["What is a lake?", "What is a hill?"])
    flags = ("--no-thinking", "--max-tokens", 16, "--set", "judge.limits.truncated=1.0")
    sevenfold("run", prompts, "-o", tmp_path / "run", "--fleet", fleet, *flags)
    assert [replica["phase"] for replica in report("status", fleet)["replicas"]] == ["ready", "ready"]
    assert "replica 0" in sevenfold("down", fleet).stderr
    assert nothing_runs(fleet)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not GSM8K.is_file(), reason="the public prompt files are not here")
def test_gsm8k_with_the_driver_killed_three_times_and_a_replica_once(tmp_path: Path) -> None:
    """1,319 real rows through two replicas: every one ends in the ledger once, and is paired with its own prompt."""
    spec, run = tmp_path / "run.toml", tmp_path / "run"
    spec.write_text(SPEC.format(max_tokens=16))
    chance, enough = random.Random(11), 0
    for _ in range(3):
        enough += chance.randint(100, 300)
        with started("run", GSM8K, "-c", spec, "-o", run) as driver:
            until_committed(run, enough, patience=1200)
            kill(driver)
        until(lambda: nothing_runs(run), "the replicas end with their driver")
        sys.stderr.write(f"driver killed at {enough} of 1319 rows\n")
    with started("resume", run) as driver:
        until_committed(run, enough + 50, patience=1200)
        os.kill(next(one.process.pid for one in marked(run) if one.replica == "0"), signal.SIGKILL)
        driver.communicate(timeout=3000)
        assert driver.returncode == 0
    sys.stderr.write(audited(run, GSM8K))
    assert report("status", run)["rows"] == {"total": 1319, "done": 1319, "failed": 0, "refused": 0, "in_flight": 0}
