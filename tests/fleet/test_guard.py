"""The supervisor is killed: its replicas wait for the next one, and not for ever."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

from sevenfold import fleet
from sevenfold.fleet.plan import FleetPlan
from sevenfold.node import process
from sevenfold.types import FleetStatus
from tests.fleet.scan import all_ready, left_of, until, until_nothing_is_left, wait_ended
from tests.fleet.test_fleet import having


def killed(run: Path, plan: FleetPlan) -> FleetStatus:
    """The last words of a supervisor that was killed when its replicas were ready."""
    fleet.start(run, plan)
    status = until(run, all_ready)
    os.kill(status.supervisor, signal.SIGKILL)
    wait_ended(status.supervisor)
    return status


def test_the_next_supervisor_adopts_the_replicas(run: Path, stub_plan: FleetPlan) -> None:
    before = killed(run, stub_plan)
    assert fleet.start(run, stub_plan)
    after = fleet.status(run)
    assert after
    assert after.supervisor != before.supervisor
    assert after.endpoints == before.endpoints
    assert [(r.pid, r.started, r.restarts) for r in after.replicas] == [
        (r.pid, r.started, r.restarts) for r in before.replicas
    ]
    assert fleet.stop(run) == ["replica 0", "supervisor"]
    assert left_of(run) == []


def test_who_follows_brings_a_new_supervisor_and_sees_no_replica_go(run: Path, stub_plan: FleetPlan) -> None:
    before = killed(run, msgspec.structs.replace(stub_plan, owner=process.identity(os.getpid())))
    after = until(run, lambda s: True)
    assert after.supervisor != before.supervisor
    assert (after.endpoints, after.ended) == (before.endpoints, "")


def test_an_adopted_replica_that_dies_comes_back(run: Path, stub_plan: FleetPlan) -> None:
    before = killed(run, stub_plan).replicas[0]
    fleet.start(run, stub_plan)
    assert before.pid
    os.kill(before.pid, signal.SIGKILL)
    again = until(run, lambda s: all_ready(s) and s.replicas[0].pid != before.pid).replicas[0]
    assert (again.restarts, again.url) == (1, before.url)


def test_one_that_died_meanwhile_is_started_again(run: Path, stub_plan: FleetPlan) -> None:
    before = killed(run, stub_plan).replicas[0]
    assert before.pid
    os.kill(before.pid, signal.SIGKILL)
    wait_ended(before.pid)
    fleet.start(run, stub_plan)
    assert until(run, all_ready).replicas[0].pid != before.pid


def test_replicas_of_another_plan_are_not_adopted(run: Path, stub_plan: FleetPlan) -> None:
    before = killed(run, stub_plan)
    fleet.start(run, having(stub_plan, load=0.1))
    assert until(run, all_ready).replicas[0].pid != before.replicas[0].pid


def test_without_a_new_supervisor_they_end(run: Path, stub_plan: FleetPlan) -> None:
    before = killed(run, msgspec.structs.replace(stub_plan, unattended=0.1))
    assert before.replicas[0].pid
    wait_ended(before.replicas[0].pid)
    until_nothing_is_left(run)
    assert "nobody supervises this replica" in (run / "logs" / "replica-0.log").read_text()


def test_without_owner_and_supervisor_they_end_at_once(run: Path, stub_plan: FleetPlan) -> None:
    owner = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    plan = msgspec.structs.replace(stub_plan, owner=process.identity(owner.pid), unattended=1e9)
    before = killed(run, plan)
    owner.kill()
    owner.communicate()
    assert before.replicas[0].pid
    wait_ended(before.replicas[0].pid)
    until_nothing_is_left(run)


def test_a_replica_finds_no_child_and_no_signal_that_it_did_not_ask_for(run: Path, stub_plan: FleetPlan) -> None:
    fleet.start(run, stub_plan)
    pid = until(run, all_ready).replicas[0].pid
    assert Path(f"/proc/{pid}/task/{pid}/children").read_text() == ""
