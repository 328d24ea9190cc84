import sys
from pathlib import Path

import pytest

from sevenfold.config import Fleet, RunSpec
from sevenfold.job.doctor import known, wanted
from sevenfold.node.models import here

SGLANG = Fleet(engine="sglang", replicas=2, base_port=30000, flags={"--tp_size": 2, "trust-remote-code": True})


def test_a_spec_in_the_terms_of_the_machine() -> None:
    asked = wanted(RunSpec(model="/models/q", fleet=SGLANG), Path("runs/x"))
    assert (asked.needs_gpu, asked.replicas, asked.gpus_each, asked.python) == (True, 2, 2, sys.executable)
    assert (asked.ports, asked.inner_ports) == ((30000, 30001), (31000, 31001))
    assert (asked.model, asked.flags["trust-remote-code"]) == (Path("/models/q"), True)


def test_somebody_elses_endpoints_ask_nothing_of_the_machine() -> None:
    asked = wanted(RunSpec(fleet=Fleet(engine="openai", endpoints=("http://x:1",), base_port=3)), Path("x"))
    assert (asked.starts, asked.ports, asked.model) == (False, (), None)


def test_what_is_known_of_a_version_and_its_flags() -> None:
    found = known("sglang", "0.5.23", {"mamba-scheduler-strategy": "extra_buffer"}, {})
    assert [(f.level, f.sentence.partition(":")[0]) for f in found if f.level == "fail"] == [
        ("fail", "sglang 0.5.23 does not know --mamba-scheduler-strategy any more and exits with code 2")
    ]
    assert known("llamacpp", "1.0", {}, {})[0].level == "ok"
    assert known("sglang", "0.0.0.dev1+gabc-dirty", {}, {})[0].level == "note"


def test_a_model_of_the_hub_is_looked_for_and_never_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert here("hf:org/name") is None
    folder = tmp_path / "models--org--name"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc\n")
    assert here("hf:org/name") is None
    (folder / "snapshots" / "abc").mkdir(parents=True)
    assert here("hf:org/name") == folder / "snapshots" / "abc"
    assert here("hf:org/name@abc") == folder / "snapshots" / "abc"
