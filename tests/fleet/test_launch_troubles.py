"""Real troubles of people who supervise servers, by id: cases/ID beside it holds what they had, and what is right."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sevenfold import fleet
from sevenfold.events import SILENT
from sevenfold.fleet.canary import Canary, Panel
from sevenfold.fleet.keeper import Keeper, Shared
from sevenfold.fleet.launch import Turns
from sevenfold.fleet.plan import FleetPlan
from sevenfold.node import process
from tests.fleet.scan import all_ready, until

CASES = Path(__file__).parent / "cases"


def read(trouble: str, file: str = "case.json") -> Any:
    return json.loads((CASES / trouble / file).read_text())


@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
def test_l13_a_process_that_cannot_be_killed_is_lost_with_its_gpu(run: Path, stub_plan: FleetPlan) -> None:
    """What kills finds the process alive afterwards, as one in state D is."""
    number = read("L13", "behaviour.json")["server"]
    assert read("L13")["expect"]["server5"] == "lost (no more restarts on this GPU)"
    serve = msgspec.structs.replace(stub_plan.replicas[0], gpu=str(number), flags={"silent": 1})
    plan = msgspec.structs.replace(stub_plan, replicas=(serve,) * (number + 1), start_timeout=0.3)
    keeper = Keeper(plan, number, Shared(Turns(1), Panel([str(number)], "stub", Canary()), SILENT))
    asked: list[process.Identity] = []

    def in_vain(leader: process.Identity, grace: float) -> list[process.Identity]:
        asked.append(leader)
        return [leader]

    keeper.stop_session = in_vain

    async def keep() -> None:
        async with asyncio.timeout(30):
            await keeper.keep()

    asyncio.run(keep())
    (stuck,) = asked
    status = keeper.status()
    assert process.alive(stuck.pid, stuck.started)
    assert (status.phase, status.restarts) == ("failed", 0)
    assert status.reason.startswith(f"process {stuck.pid} of GPU {number} does not die; ")
    assert Path(f"{serve.model}.starts").read_text() == "x"  # no second engine beside it


def test_l13_the_fleet_goes_on_with_the_rest(run: Path, stub_plan: FleetPlan) -> None:
    assert read("L13")["expect"]["fleet"] == "continues with the rest"
    good = stub_plan.replicas[0]
    lost = msgspec.structs.replace(good, flags={"serves": "other"})
    fleet.start(run, msgspec.structs.replace(stub_plan, replicas=(good, lost)))
    status = until(run, lambda s: s.replicas[1].phase == "failed" and bool(s.endpoints))
    assert (status.ended, [e.replica for e in status.endpoints]) == ("", ["0"])


def test_l13_a_tool_that_hangs_is_not_waited_for() -> None:
    assert read("L13")["expect"]["nvidia_smi_call"] == "has its own timeout"
    assert process.output(("sh", "-c", "trap '' TERM; echo 1; exec sleep 600"), 0.2) == ""


def test_l14_a_silent_port_is_not_dead_while_the_log_grows(run: Path, stub_plan: FleetPlan) -> None:
    """A twentieth of their seconds. The slow load takes twice the time-out, its log grows ten times meanwhile."""
    right, given = read("L14")["expect"], read("L14", "behaviour.json")
    replicas = tuple(
        msgspec.structs.replace(stub_plan.replicas[0], flags={"load": opens / 20})
        for opens in given["port_opens_after_s"]
    )
    fleet.start(run, msgspec.structs.replace(stub_plan, replicas=replicas, start_timeout=1.0))
    early = until(run, lambda s: len(s.endpoints) == 2)
    assert [(r.name, r.phase) for r in early.replicas] == [("0", "ready"), ("1", "ready"), ("2", "starting")]
    assert [r.restarts for r in until(run, all_ready).replicas] == [right["restarts"]] * given["servers"]
