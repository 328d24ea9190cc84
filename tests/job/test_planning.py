import json
import sys
from importlib import resources
from pathlib import Path

import msgspec
import pytest

from sevenfold.capacity.roofline import Lengths
from sevenfold.config import Fleet, RunSpec
from sevenfold.errors import ConfigError
from sevenfold.job import profiles
from sevenfold.job.planning import Scenario, expected, plan, side_by_side
from tests.capacity.shapes import QWEN3_8B, QWEN36_27B

AS_FOUND = profiles.load("qwen3.6-27b-b200-asfound")
FAST = profiles.load("qwen3.6-27b-h200")
THINKING = Lengths(prompt=180, output=2000, spread=0.8)
ASKED = Scenario(gpu="B200", rows=902_087, lengths=THINKING, price=4.0)


def test_the_launch_as_found_lets_sixteen_requests_run():
    found = plan(AS_FOUND, ASKED)
    assert found.replica is not None
    assert found.fleet is not None
    assert found.fleet.hours is not None
    assert (found.replica.max_running_requests, found.replica.state_slots, len(found.launches)) == (16, 80, 7)
    assert "--disable-radix-cache" in found.replica.binding_limit
    assert not found.refused
    assert found.fleet.cost == pytest.approx(found.fleet.hours * 7 * 4.0)


def test_without_rows_there_are_no_hours_and_no_cost():
    found = plan(AS_FOUND, msgspec.structs.replace(ASKED, rows=None))
    assert found.fleet is not None
    assert (found.fleet.hours, found.fleet.cost) == (None, None)


def test_each_replica_has_a_gpu_and_ports_of_its_own():
    found = plan(AS_FOUND, ASKED)
    for place, launch in enumerate(found.launches):
        argv = launch.command.argv
        assert launch.command.env == {"CUDA_VISIBLE_DEVICES": str(place), "SGLANG_ENABLE_SPEC_V2": "1"}
        assert argv[:3] == (sys.executable, "-m", "sglang.launch_server")
        assert argv[argv.index("--port") + 1] == str(30000 + place)
        assert argv[argv.index("--max-mamba-cache-size") + 1] == "80"


def test_a_replica_over_two_gpus_gets_two():
    wide = msgspec.structs.replace(FAST, flags={**FAST.flags, "tp-size": 2}, replicas=2)
    found = plan(wide, msgspec.structs.replace(ASKED, gpu="H100"))
    assert [launch.command.env["CUDA_VISIBLE_DEVICES"] for launch in found.launches] == ["0,1", "2,3"]


def test_the_shipped_shape_is_the_models_own():
    shipped = plan(FAST, ASKED)
    assert shipped.shape == "the shipped shape of Qwen3.6-27B"
    assert shipped.replica is not None
    assert shipped.replica.weights_bytes / (1 << 30) == pytest.approx(51.0, abs=0.1)


def test_a_folder_gives_the_shape_and_is_launched_and_a_file_gives_the_shape_only(home):
    (home / "Tiny").mkdir()
    file = home / "Tiny" / "config.json"
    file.write_text(json.dumps(QWEN3_8B))
    folder = plan(FAST, msgspec.structs.replace(ASKED, model=home / "Tiny"))
    shape = plan(FAST, msgspec.structs.replace(ASKED, model=file))
    assert (folder.shape, folder.replica) == (shape.shape, shape.replica)
    assert str(home / "Tiny") in folder.launches[0].command.argv
    assert FAST.model in shape.launches[0].command.argv


def test_a_model_in_its_place_is_found_by_the_profile(home):
    (home / "config.json").write_text(json.dumps(QWEN36_27B))
    here = msgspec.structs.replace(FAST, model=str(home))
    assert plan(here, ASKED).shape == str(home / "config.json")


def test_an_unknown_or_spoilt_model_is_named(home):
    with pytest.raises(ConfigError, match=r"the shape of acme/x is not known"):
        plan(msgspec.structs.replace(FAST, model="acme/x"), ASKED)
    (home / "config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"config\.json: not a model's config\.json"):
        plan(FAST, msgspec.structs.replace(ASKED, model=home))


def test_what_does_not_fit_is_an_error_among_the_findings():
    found = plan(FAST, msgspec.structs.replace(ASKED, gpu="L40S"))
    assert (found.refused, found.replica, found.fleet) == (True, None, None)
    assert found.findings[0].sentence.startswith("it would not start: L40S")


def test_a_flag_of_another_version_is_one_error_with_its_new_name():
    found = plan(AS_FOUND, msgspec.structs.replace(ASKED, engine_version="0.5.23"))
    errors = [finding for finding in found.findings if finding.severity == "error"]
    assert [error.instead for error in errors] == ["mamba-radix-cache-strategy"]
    assert any("was written for sglang 0.5.11" in finding.sentence for finding in found.findings)


def test_without_the_engine_the_rules_alone_are_said_to_be_what_was_checked():
    assert plan(FAST, ASKED).checked.endswith(f"alone: sglang is not installed in {sys.executable}")


def test_flags_are_checked_against_the_installed_engine_itself(sglang):
    good = plan(FAST, ASKED)
    assert good.checked == f"flags checked against sglang 0.5.11 itself, in {sys.executable}"
    assert not good.refused
    odd = plan(msgspec.structs.replace(FAST, flags={**FAST.flags, "max-runing-requests": 3}), ASKED)
    assert odd.findings[0].sentence == "--max-runing-requests is no flag of sglang 0.5.11"
    assert odd.findings[0].remedy == "did you mean --max-running-requests?"


def test_the_installed_version_counts_unless_another_is_named(sglang):
    older = msgspec.structs.replace(FAST, engine_version="0.5.9")
    assert plan(older, ASKED).engine_version == "0.5.11"
    other = plan(FAST, msgspec.structs.replace(ASKED, engine_version="0.5.12"))
    assert other.engine_version == "0.5.12"
    assert other.checked.endswith(f"alone: sglang 0.5.11 is installed in {sys.executable}, not 0.5.12")


def test_an_engine_that_does_not_tell_its_flags_leaves_the_rules(sglang):
    (sglang / "sglang" / "srt" / "server_args.py").write_text("import no_such_package\n")
    found = plan(FAST, ASKED)
    assert not found.refused
    assert found.checked.endswith(f"alone: sglang 0.5.11 in {sys.executable} did not tell its flags")


def test_the_launch_as_found_stands_beside_the_fastest_of_that_gpu():
    found, best = side_by_side(msgspec.structs.replace(ASKED, gpu="NVIDIA H200"))
    assert (found.profile.name, best.profile.name) == (AS_FOUND.name, "qwen3.6-27b-h200-fast")
    assert len(found.launches) == len(best.launches)
    assert found.fleet is not None
    assert best.fleet is not None
    assert best.fleet.tokens_per_second > 3 * found.fleet.tokens_per_second
    with pytest.raises(ConfigError, match="no shipped profile is for L4"):
        side_by_side(msgspec.structs.replace(ASKED, gpu="L4"))


def test_what_the_plan_says_goes_along_with_the_launch(sglang: Path, tmp_path: Path) -> None:
    shape = Path(str(resources.files("sevenfold").joinpath("profiles", "shapes", "qwen3.6-27b.json")))
    (tmp_path / "config.json").write_text(shape.read_text())
    fleet = Fleet(engine="sglang", flags=AS_FOUND.flags)
    found = expected(RunSpec(fleet=fleet), tmp_path, "NVIDIA B200, 10.0")
    planned = plan(AS_FOUND, ASKED).replica
    assert found is not None
    assert planned is not None
    assert (found.runs, found.kv_tokens) == (16, planned.kv_tokens)
    assert expected(RunSpec(fleet=fleet), tmp_path, "some card") is None
    assert expected(RunSpec(fleet=fleet), tmp_path / "none", "NVIDIA B200, 10.0") is None
    assert expected(RunSpec(), tmp_path, "NVIDIA B200, 10.0") is None
