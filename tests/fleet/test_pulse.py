"""Hung replicas of a fleet whose patience is a second: found by what they do not do, whatever /health says."""

import json
import os
import signal
import time
import urllib.request
from pathlib import Path

import msgspec

from sevenfold import fleet
from sevenfold.config import Fleet, RunSpec
from sevenfold.fleet.plan import FleetPlan, plan_for
from sevenfold.fleet.pulse import Lines, in_flight
from sevenfold.node.models import Model
from tests.fleet.scan import DEADLINE, all_ready, until, wait_ended
from tests.fleet.test_fleet import having


def impatient(plan: FleetPlan) -> FleetPlan:
    return msgspec.structs.replace(plan, patience=1.0)


def test_a_stopped_replica_is_killed_and_replaced(run: Path, stub_plan: FleetPlan) -> None:
    fleet.start(run, impatient(stub_plan))
    first = until(run, all_ready).replicas[0]
    assert first.pid
    os.kill(first.pid, signal.SIGSTOP)
    hung = until(run, lambda s: s.replicas[0].restarts == 1).replicas[0]
    assert hung.reason.startswith("hung: nothing moved for")
    again = until(run, lambda s: all_ready(s) and s.replicas[0].pid != first.pid).replicas[0]
    assert (again.url, again.reason) == (first.url, "")


def test_one_that_hangs_when_its_supervisor_is_killed_too(run: Path, stub_plan: FleetPlan) -> None:
    fleet.start(run, impatient(stub_plan))
    first = until(run, all_ready)
    pid = first.replicas[0].pid
    assert pid
    os.kill(pid, signal.SIGSTOP)
    os.kill(first.supervisor, signal.SIGKILL)
    wait_ended(first.supervisor)
    assert until(run, lambda s: s.replicas[0].restarts == 1).replicas[0].reason.startswith("hung: nothing moved")


def test_one_that_lies_about_its_health_is_found(run: Path, stub_plan: FleetPlan) -> None:
    """It answers /health and /metrics, and no completion after its warm-up."""
    fleet.start(run, impatient(having(stub_plan, hang=2)))
    assert "hung: nothing moved" in until(run, lambda s: s.replicas[0].restarts == 1).replicas[0].reason


def test_the_fake_engine_that_hangs(run: Path, model: Model) -> None:
    script = run / "script.json"
    script.write_text(json.dumps({"latency": 0.01, "hang_after": 2, "lie_health": True}))
    plan = plan_for(RunSpec(fleet=Fleet(engine="fake", flags={"script": str(script)})), model, run)
    fleet.start(run, impatient(plan))
    phases: set[str] = set()
    until(run, lambda s: phases.add(s.replicas[0].phase) or s.replicas[0].restarts == 1)
    assert {"ready", "suspect", "backoff"} <= phases


def test_a_healthy_replica_is_left_alone(run: Path, stub_plan: FleetPlan) -> None:
    """It answers what it is asked while nobody else asks it anything."""
    fleet.start(run, msgspec.structs.replace(stub_plan, patience=0.2))
    pid = until(run, all_ready).replicas[0].pid
    first = fleet.status(run)
    assert first
    deadline = time.monotonic() + DEADLINE
    while tokens(first.replicas[0].url) < 2 * 5:
        assert time.monotonic() < deadline
    after = fleet.status(run)
    assert after
    assert (after.replicas[0].pid, after.replicas[0].restarts) == (pid, 0)


def tokens(url: str) -> int:
    """The stub makes two for each completion, and its warm-up took two completions."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=DEADLINE) as reply:
        return int(reply.read().split()[1])


def test_the_drives_word_is_believed_while_it_is_fresh(tmp_path: Path) -> None:
    drive = tmp_path / "drive.json"
    assert in_flight(drive, "0") is None
    drive.write_text(json.dumps({"at": time.time(), "in_flight_by_replica": {"0": 3}, "pid": 1}))
    assert (in_flight(drive, "0"), in_flight(drive, "1")) == (3, 0)
    drive.write_text(json.dumps({"at": time.time() - 60, "in_flight_by_replica": {"0": 3}}))
    assert in_flight(drive, "0") is None


def test_lines_of_work_are_told_from_what_our_own_looks_leave(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("Decode batch, #running-req: 16\n")
    lines = Lines(log)
    assert lines.seen() == 0
    with log.open("a") as file:
        file.write('"GET /metrics HTTP/1.1" 200 OK\nHealth check failed.\nDecode batch, #running-req: 16\n')
    assert (lines.seen(), lines.seen()) == (1, 1)
    log.unlink()
    assert lines.seen() == 1
