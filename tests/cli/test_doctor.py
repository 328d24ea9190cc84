"""`doctor` and `stage` as a user runs them, on this machine."""

import json
import socket
from pathlib import Path

import pytest

from sevenfold.cli.main import main

PROBES = {
    *("gpus", "gpu memory", "gpu health", "gpu places", "engine build", "engine", "engine import", "model"),
    *("mounts", "output", "ram disk", "kernel cache", "limits", "cpus", "ports", "advisories"),
}

FAKE = ["doctor", "--engine", "fake"]


def test_a_fit_machine(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*FAKE, "-o", str(tmp_path / "run")]) == 0
    out, err = capfd.readouterr()
    assert f"ok    output        {tmp_path}: create, append, rename, fsync" in out.splitlines()
    assert err.startswith("the machine is fit: 16 probes in ")
    assert list(tmp_path.iterdir()) == []


def test_a_named_port_that_is_busy_is_exit_code_3(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code = main([*FAKE, "--set", f"fleet.base_port={port}", "-o", str(tmp_path), "--json"])
    found = json.loads(capfd.readouterr().out)
    probes = {report["probe"]: report["findings"] for report in found["probes"]}
    assert (code, found["fit"], set(probes)) == (3, False, PROBES)
    assert probes["ports"][0]["sentence"].startswith(f"port_in_use {port}: held by pid ")
    assert probes["ports"][0]["remedy"]
    assert found["seconds"] < 10


def test_a_gpu_that_is_named_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,0")
    assert main(["doctor", "-o", str(tmp_path)]) == 3


def test_an_engine_without_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert main(["doctor", "--engine", "sglang", "--model", str(tmp_path), "-o", str(tmp_path)]) == 3
    assert "fail  gpus          no GPU visible (CUDA_VISIBLE_DEVICES=" in capfd.readouterr().out


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + bytes(1000))
    return tmp_path / "m.gguf"


def test_stage_prints_the_local_path(model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["stage", str(model), "--to", str(tmp_path / "fast")]) == 0
    first = Path(capfd.readouterr().out.strip())
    assert first.read_bytes() == model.read_bytes()
    assert main(["stage", str(model), "--to", str(tmp_path / "fast"), "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert (found["path"], found["reused"], found["bytes"]) == (str(first), True, 1004)


def test_stage_cleans_what_a_crash_left(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x-1.partial").mkdir()
    assert main(["stage", "--clean", "--to", str(tmp_path)]) == 0
    assert capfd.readouterr().err == f"removed {tmp_path / 'x-1.partial'}\n"
    assert list(tmp_path.iterdir()) == []


def test_stage_says_what_is_wrong(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["stage", "--to", str(tmp_path)]) == 2
    assert main(["stage", str(tmp_path / "none"), "--to", str(tmp_path)]) == 2
    (tmp_path / "empty").mkdir()
    assert main(["stage", str(tmp_path / "empty"), "--to", str(tmp_path / "fast")]) == 3
    assert "config.json (no_config)" in capfd.readouterr().err
