"""The fleet over a stub server: what goes wrong, and what is left then. test_llamacpp.py beside it has the real one."""

import os
import signal
import socket
import threading
from pathlib import Path

import msgspec
import pytest

from sevenfold import fleet
from sevenfold.errors import ConfigError, FleetError, NodeError
from sevenfold.fleet.plan import FleetPlan
from sevenfold.node import process
from sevenfold.types import ReplicaStatus
from tests.fleet.scan import all_ready, left_of, until, wait_ended


def having(plan: FleetPlan, start_timeout: float = 30.0, **flags: str | int | float) -> FleetPlan:
    replicas = tuple(msgspec.structs.replace(serve, flags=flags) for serve in plan.replicas)
    return msgspec.structs.replace(plan, replicas=replicas, start_timeout=start_timeout)


def only(run: Path) -> ReplicaStatus:
    found = fleet.status(run)
    assert found
    return found.replicas[0]


def test_up_and_down(run: Path, stub_plan: FleetPlan) -> None:
    assert fleet.status(run) is None
    assert fleet.start(run, stub_plan)
    ready = until(run, all_ready)
    assert [(r.restarts, r.reason, r.progress) for r in ready.replicas] == [(0, "", "")]
    assert fleet.stop(run) == ["replica 0", "supervisor"]
    assert left_of(run) == []
    after = fleet.status(run)
    assert after
    assert (after.ended, only(run).phase, only(run).pid) == ("stopped", "stopped", None)
    assert fleet.stop(run) == []


def test_a_fleet_that_runs_already_is_used(run: Path, stub_plan: FleetPlan) -> None:
    assert fleet.start(run, stub_plan)
    mine = msgspec.structs.replace(stub_plan, owner=process.identity(os.getpid()))
    assert not fleet.start(run, mine)


def test_another_fleet_in_the_same_folder_is_refused(run: Path, stub_plan: FleetPlan) -> None:
    fleet.start(run, stub_plan)
    with pytest.raises(ConfigError, match="replicas of another plan run here") as error:
        fleet.start(run, having(stub_plan, load=1))
    assert str(run) in error.value.remedy


def test_a_second_start_after_the_first_was_killed(run: Path, stub_plan: FleetPlan) -> None:
    fleet.start(run, stub_plan)
    first = until(run, all_ready)
    os.kill(first.supervisor, signal.SIGKILL)
    wait_ended(first.supervisor)
    assert fleet.start(run, stub_plan)
    assert until(run, all_ready).supervisor != first.supervisor


def test_one_that_dies_at_first_comes_up_later(run: Path, stub_plan: FleetPlan) -> None:
    fleet.start(run, having(stub_plan, die=1))
    waiting = until(run, lambda s: s.replicas[0].restarts == 1).replicas[0]
    assert "CUDA error: no device" in waiting.reason
    assert until(run, all_ready).replicas[0].restarts == 1


def test_one_that_never_comes_up_ends_the_fleet(run: Path, stub_plan: FleetPlan) -> None:
    fleet.start(run, having(stub_plan, die=99))
    status = until(run, lambda s: bool(s.ended))
    assert status.ended.startswith("no replica could be kept: it ended with code 1; its log ends: CUDA error")
    assert status.replicas[0].phase == "failed"
    wait_ended(status.supervisor)
    assert left_of(run) == []


def test_a_slow_load_is_not_dead_and_shows_its_progress(run: Path, stub_plan: FleetPlan) -> None:
    fleet.start(run, having(stub_plan, start_timeout=1.0, load=2.5))
    assert until(run, lambda s: "%" in s.replicas[0].progress).replicas[0].phase == "starting"
    assert until(run, all_ready).replicas[0].restarts == 0


def test_a_silent_load_is_dead(run: Path, stub_plan: FleetPlan) -> None:
    fleet.start(run, having(stub_plan, start_timeout=0.5, silent=1))
    assert "stood still" in until(run, lambda s: s.replicas[0].restarts > 0).replicas[0].reason


def test_another_model_behind_the_port_is_refused(run: Path, stub_plan: FleetPlan) -> None:
    fleet.start(run, having(stub_plan, serves="other"))
    assert "serves 'other', not 'stub'" in until(run, lambda s: bool(s.ended)).ended


def test_an_interpreter_that_is_not_there(run: Path, stub_plan: FleetPlan) -> None:
    replicas = tuple(msgspec.structs.replace(s, python="/no/python") for s in stub_plan.replicas)
    fleet.start(run, msgspec.structs.replace(stub_plan, replicas=replicas))
    ended = until(run, lambda s: bool(s.ended)).ended
    assert "/no/python: cannot be started" in ended
    assert "fleet.python" in ended


def test_a_port_that_the_user_named_does_not_move(run: Path, stub_plan: FleetPlan) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        replicas = tuple(msgspec.structs.replace(s, port=port) for s in stub_plan.replicas)
        plan = msgspec.structs.replace(stub_plan, replicas=replicas, named_ports=True)
        with pytest.raises(NodeError, match=f"port {port} is in use: pid {os.getpid()}") as error:
            fleet.start(run, plan)
        assert error.value.exit_code == 3
        assert left_of(run) == []
    fleet.start(run, plan)
    assert until(run, all_ready).replicas[0].url == f"http://127.0.0.1:{port}"


def test_a_restarted_replica_keeps_its_port(run: Path, stub_plan: FleetPlan) -> None:
    fleet.start(run, stub_plan)
    first = until(run, all_ready).replicas[0]
    assert first.pid
    os.kill(first.pid, signal.SIGKILL)
    again = until(run, lambda s: all_ready(s) and s.replicas[0].pid != first.pid).replicas[0]
    assert (again.url, again.restarts) == (first.url, 1)


def test_a_plan_that_no_supervisor_can_read(run: Path, stub_plan: FleetPlan) -> None:
    with pytest.raises(FleetError, match=r"the supervisor did not come up: .*KeyError: 'nonsense'"):
        fleet.start(run, msgspec.structs.replace(stub_plan, engine="nonsense"))


def test_nothing_to_follow(run: Path) -> None:
    with pytest.raises(FleetError, match="no replicas were started here"):
        until(run, all_ready)


def test_a_stopped_fleet_says_so_to_who_follows(run: Path, stub_plan: FleetPlan) -> None:
    fleet.start(run, stub_plan)
    until(run, all_ready)
    stopper = threading.Thread(target=fleet.stop, args=(run,))
    stopper.start()
    assert until(run, lambda s: bool(s.ended)).ended == "stopped"
    stopper.join()
