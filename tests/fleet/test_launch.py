"""Who starts when: seven at once on two cores, and replicas whose kernels nobody has compiled yet."""

import asyncio
import os
import sys
from pathlib import Path

import msgspec
import pytest

from sevenfold import fleet
from sevenfold.config import Fleet, RunSpec
from sevenfold.fleet.launch import Turns, markers_for, version
from sevenfold.fleet.plan import FleetPlan, plan_for, serves
from sevenfold.node import cpus, kernels
from sevenfold.node.models import Model
from tests.fleet.scan import all_ready, until

BURNER = """#!{python}
import os, sys, time
from pathlib import Path
burning = Path({folder!r}) / str(os.getpid())
burning.touch()
at_once = len(list(burning.parent.iterdir()))
with open({peak!r}, "a") as file:
    file.write(f"{{at_once}}\\n")
while time.process_time() < 0.3:
    pass
burning.unlink()
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def test_seven_that_burn_cpu_at_their_start_all_come_up(run: Path, model: Model) -> None:
    burning, peak, python = run / "burning", run / "peak", run / "burner"
    burning.mkdir()
    python.write_text(BURNER.format(python=sys.executable, folder=str(burning), peak=str(peak)))
    python.chmod(0o700)
    plan = plan_for(RunSpec(fleet=Fleet(engine="fake", replicas=7, python=str(python))), model, run)
    fleet.start(run, plan)
    status = until(run, all_ready)
    assert [(r.restarts, r.reason) for r in status.replicas] == [(0, "")] * 7
    at_once = [int(line) for line in peak.read_text().split()]
    assert len(at_once) == 7
    assert max(at_once) <= cpus.available()


def order(turns: Turns, *steps: str) -> list[str]:
    """Three replicas ask for their turns; whose turn has come after each step."""
    got: list[str] = []

    async def replica(name: str) -> None:
        await turns.take(name)
        got.append(name)

    async def main() -> list[str]:
        seen: list[str] = []
        async with asyncio.TaskGroup() as tasks:
            waiting = [tasks.create_task(replica(name)) for name in "012"]
            for step in ("", *steps):
                if step:
                    getattr(turns, step)(*(() if step == "came_up" else ("0",)))
                for _ in range(5):
                    await asyncio.sleep(0)
                seen.append("".join(got))
            for task in waiting:
                task.cancel()
        return seen

    return asyncio.run(main())


def test_one_warms_the_cold_kernels_and_the_rest_follow(tmp_path: Path) -> None:
    marker = tmp_path / "warm" / "marker"
    assert order(Turns(3, [marker]), "came_up") == ["0", "012"]
    assert marker.exists()
    assert order(Turns(3, [marker])) == ["012"]
    assert order(Turns(3, [marker, tmp_path / "cache" / "emptied"])) == ["0"]


def test_a_pioneer_that_fails_for_good_holds_nobody_back(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    assert order(Turns(3, [marker]), "give", "gave_up") == ["0", "0", "012"]
    assert not marker.exists()


def test_as_many_at_once_as_there_are_cores() -> None:
    assert order(Turns(1), "give", "give") == ["0", "01", "01"]


@pytest.fixture
def sglang(tmp_path: Path) -> FleetPlan:
    python = tmp_path / "env" / "bin" / "python"
    info = tmp_path / "env" / "lib" / "python3.12" / "site-packages" / "sglang-0.5.11.dist-info"
    info.mkdir(parents=True)
    spec = Fleet(engine="sglang", python=str(python))
    replicas = serves(spec, Model(Path("/models/m"), "m", {}), ("0",), 1)
    return FleetPlan("sglang", str(tmp_path), replicas, 9.0)


def test_what_is_warm_for_one_version_and_gpu_is_cold_for_another(sglang: FleetPlan, tmp_path: Path) -> None:
    assert version(sglang.replicas[0], "sglang") == "0.5.11"
    here = markers_for(sglang, tmp_path, "NVIDIA H200, 9.0")
    assert here == markers_for(sglang, tmp_path, "NVIDIA H200, 9.0")
    assert here[0] != markers_for(sglang, tmp_path, "NVIDIA B200, 10.0")[0]
    packages = tmp_path / "env" / "lib" / "python3.12" / "site-packages"
    (packages / "sglang-0.5.11.dist-info").rename(packages / "sglang-0.5.23.dist-info")
    assert not set(here) & set(markers_for(sglang, tmp_path, "NVIDIA H200, 9.0"))


def test_what_a_warm_start_leaves_is_what_doctor_looks_at(sglang: FleetPlan, tmp_path: Path) -> None:
    """The caches are the replica's: where its environment moves them, not where ours has them."""
    places = {"HOME": str(tmp_path / "home"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
    serve = msgspec.structs.replace(sglang.replicas[0], env=places)
    plan = msgspec.structs.replace(sglang, replicas=(serve,))
    env = {**os.environ, **places}
    assert not kernels.is_warm("sglang", "0.5.11", env)
    order(Turns(3, markers_for(plan, tmp_path / "cache", "NVIDIA H200, 9.0")), "came_up")
    assert kernels.is_warm("sglang", "0.5.11", env)
    assert order(Turns(3, markers_for(plan, tmp_path / "cache", "NVIDIA H200, 9.0"))) == ["012"]


def test_engines_that_compile_nothing_are_never_cold(sglang: FleetPlan, tmp_path: Path) -> None:
    assert markers_for(msgspec.structs.replace(sglang, engine="llamacpp"), tmp_path, "") == ()
    assert version(msgspec.structs.replace(sglang.replicas[0], python="/no/bin/python"), "sglang") == ""
