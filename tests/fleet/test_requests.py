"""One replica restarted, or stopped and brought back, by command."""

import json
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from sevenfold import fleet
from sevenfold.config import Fleet, RunSpec
from sevenfold.errors import ConfigError
from sevenfold.fleet.plan import FleetPlan, plan_for
from sevenfold.node.models import Model
from tests.fleet.scan import DEADLINE, all_ready, until

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


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


def asks(url: str) -> urllib.request.Request:
    body = {"model": "stub", "messages": [{"role": "user", "content": "Slow one?"}]}
    headers = {"Content-Type": "application/json"}
    return urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), headers)


def test_a_request_in_flight_ends_before_its_replica_does(run: Path, model: Model) -> None:
    script = run / "script.json"
    rule = {"match": "Slow one?", "reply": "Done."}
    script.write_text(json.dumps({"latency": 3.0, "sigma": 0.0, "rules": [rule]}))
    plan = plan_for(RunSpec(fleet=Fleet(engine="fake", flags={"script": str(script)})), model, run)
    fleet.start(run, plan)
    url = until(run, all_ready).replicas[0].url
    said: list[bytes] = []

    def ask() -> None:
        with OPENER.open(asks(url), timeout=DEADLINE) as reply:
            said.append(reply.read())

    asking = threading.Thread(target=ask)
    asking.start()
    wait_running(url)
    fleet.ask(run, "0", "drain")
    draining = until(run, lambda s: s.replicas[0].phase == "draining")
    assert [endpoint.slots for endpoint in draining.endpoints] == [0]
    until(run, lambda s: s.replicas[0].phase == "stopped")
    asking.join()
    assert b"Done." in said[0]


def wait_running(url: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while b"fake:requests_running 1" not in OPENER.open(f"{url}/metrics", timeout=DEADLINE).read():
        assert time.monotonic() < deadline
