import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sevenfold import fleet
from sevenfold.config import Fleet, RunSpec
from sevenfold.fleet.plan import FleetPlan, plan_for
from sevenfold.node.models import Model, resolve
from tests.fleet.scan import left_of


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run folder of which nothing may be left running."""
    monkeypatch.setenv("SEVENFOLD_TEST_RUN", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    yield tmp_path
    fleet.stop(tmp_path, 5.0)
    assert left_of(tmp_path) == []


@pytest.fixture
def stub(run: Path) -> Path:
    """The stub server as an interpreter that ignores the script it is given."""
    path = run / "python"
    path.write_text(f"#!{sys.executable}\n" + Path(__file__).with_name("stub.py").read_text())
    path.chmod(0o700)
    return path


@pytest.fixture
def model(run: Path) -> Model:
    return Model(run / "stub.gguf", "stub", {})


@pytest.fixture
def stub_plan(run: Path, stub: Path, model: Model) -> FleetPlan:
    return plan_for(RunSpec(fleet=Fleet(python=str(stub))), model, run)


@pytest.fixture(scope="session")
def smollm2() -> Model:
    return resolve("")
