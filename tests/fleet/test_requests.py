"""One replica restarted, or stopped and brought back, by command."""

from pathlib import Path

import pytest

from sevenfold import fleet
from sevenfold.errors import ConfigError
from sevenfold.fleet.plan import FleetPlan
from tests.fleet.scan import all_ready, until


def test_restart(run: Path, stub_plan: FleetPlan) -> None:
    fleet.start(run, stub_plan)
    first = until(run, all_ready).replicas[0]
    fleet.ask(run, "0", "restart")
    again = until(run, lambda s: all_ready(s) and s.replicas[0].pid != first.pid).replicas[0]
    assert (again.url, again.restarts, again.reason) == (first.url, 1, "")


def test_drained_it_stays_down_until_it_is_restarted(run: Path, stub_plan: FleetPlan) -> None:
    fleet.start(run, stub_plan)
    until(run, all_ready)
    fleet.ask(run, "0", "drain")
    down = until(run, lambda s: s.replicas[0].phase == "stopped")
    assert (down.endpoints, down.ended, down.replicas[0].pid) == ((), "", None)
    assert down.replicas[0].reason == "stopped on request"
    fleet.ask(run, "0", "restart")
    until(run, all_ready)


def test_whom_to_ask(run: Path, stub_plan: FleetPlan) -> None:
    with pytest.raises(ConfigError, match="no replicas run here"):
        fleet.ask(run, "0", "restart")
    fleet.start(run, stub_plan)
    with pytest.raises(ConfigError, match="no replica '7'"):
        fleet.ask(run, "7", "restart")
