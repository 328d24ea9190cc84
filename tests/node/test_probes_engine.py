import json
import os
import sys
from pathlib import Path

import pytest

from sevenfold.node.asked import Subject, Wanted
from sevenfold.node.devices import Device, Driver
from sevenfold.node.interpreter import Build, Installed, build, installed, serves
from sevenfold.node.probes_engine import engine, imported, judged, model, pinned
from sevenfold.node.wholeness import Defect

HERE = Installed("3.12.1", "/", "0.5.11", "/env/sglang/__init__.py")
GPU = Driver("580", "13.0", (Device(0, "GPU-1", "X", 1, 1),))


def subject(found: Installed | None, took: Build | None, driver: Driver | None = GPU) -> Subject:
    wanted = Wanted(engine="sglang", python="/env/bin/python")
    return Subject(wanted, lambda: driver, lambda _p, _e: found, lambda _p, _e, _s: took)


@pytest.mark.parametrize(
    ("found", "level", "said"),
    [
        (HERE, "ok", "sglang 0.5.11, Python 3.12.1, in /"),
        (None, "fail", "/env/bin/python: no Python that answers"),
        (Installed("3.12.1", "/env", "", ""), "fail", "sglang is not installed in /env"),
    ],
)
def test_the_engine_is_looked_for_in_its_own_interpreter(found: Installed | None, level: str, said: str) -> None:
    (finding,) = engine(subject(found, None))
    assert (finding.level, finding.sentence) == (level, said)


@pytest.mark.parametrize(
    ("took", "driver", "level", "said"),
    [
        (Build(4.2), GPU, "ok", "import takes 4.2 s; / lies on "),
        (Build(21.0), GPU, "warn", "import takes 21 s; / lies on "),
        (Build(1.0, "ImportError: no libcuda"), GPU, "fail", "cannot be imported: ImportError: no libcuda"),
        (None, GPU, "fail", "import does not end in 60 s; / lies on "),
        (None, None, "note", "import takes more than 6 s; / lies on "),
    ],
)
def test_import_time_and_its_mount(took: Build | None, driver: Driver | None, level: str, said: str) -> None:
    (finding,) = imported(subject(HERE, took, driver))
    assert (finding.level, finding.sentence[: len(said)]) == (level, said)


def fake_package(folder: Path, body: str) -> Path:
    """An interpreter that has a package `sglang` of version 9.1."""
    (folder / "lib" / "sglang").mkdir(parents=True)
    (folder / "lib" / "sglang" / "__init__.py").write_text(body)
    (folder / "lib" / "sglang-9.1.dist-info").mkdir()
    (folder / "lib" / "sglang-9.1.dist-info" / "METADATA").write_text("Name: sglang\nVersion: 9.1\n")
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder / "lib"} exec {sys.executable} "$@"\n')
    python.chmod(0o700)
    return python


def test_a_real_interpreter_is_asked(tmp_path: Path) -> None:
    python = os.fspath(fake_package(tmp_path, "print('a banner, as engines print')\n"))
    found = installed(python, "sglang")
    assert found is not None
    assert (found.version, found.place) == ("9.1", str(tmp_path / "lib" / "sglang" / "__init__.py"))
    took = build(python, "sglang", 30.0)
    assert took is not None
    assert (took.error, took.cuda, took.architectures) == ("", None, ())


def test_an_import_that_fails_or_hangs(tmp_path: Path) -> None:
    broken = os.fspath(fake_package(tmp_path / "a", "raise ImportError('no libcuda.so.1')\n"))
    took = build(broken, "sglang", 30.0)
    assert took is not None
    assert took.error == "ImportError: no libcuda.so.1"
    dying = os.fspath(fake_package(tmp_path / "c", "import os\nos._exit(1)\n"))
    took = build(dying, "sglang", 30.0)
    assert took is not None
    assert took.error == "the interpreter died of it"
    hanging = os.fspath(fake_package(tmp_path / "b", "import threading\nthreading.Event().wait()\n"))
    assert build(hanging, "sglang", 0.3) is None


def test_no_interpreter(tmp_path: Path) -> None:
    assert installed(str(tmp_path / "python"), "sglang") is None


def test_a_driver_serves_its_own_and_older_cudas() -> None:
    assert [serves("12.4", "12.8"), serves("13.0", "12.8"), serves("12.8", "13.0")] == [True, True, False]


@pytest.mark.parametrize(
    ("name", "is_pinned"),
    [("/models/x", True), ("hf:org/x", False), ("hf:org/x@main", False), (f"hf:org/x@{'0a' * 20}", True)],
)
def test_only_a_whole_commit_pins_a_model_of_the_hub(name: str, is_pinned: bool) -> None:
    assert pinned(name) is is_pinned


@pytest.mark.parametrize(
    ("trusted", "is_pinned", "level"), [(False, False, "warn"), (True, False, "fail"), (True, True, "note")]
)
def test_code_in_a_model(trusted: bool, is_pinned: bool, level: str) -> None:
    (found,) = judged([Defect("config.json", "custom_code", "auto_map loads x.py")], trusted, is_pinned)
    assert found.level == level


def test_models_of_this_machine(tmp_path: Path) -> None:
    def levels(path: Path | None, said: str = "") -> list[str]:
        return [f.level for f in model(Subject(Wanted(model=path, model_said=said), lambda: None))]

    gguf, pointer, text = tmp_path / "a.gguf", tmp_path / "b.gguf", tmp_path / "c.gguf"
    gguf.write_bytes(b"GGUF" + bytes(8))
    pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    text.write_text("hello")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({}))
    assert [levels(p) for p in (gguf, pointer, text, folder, tmp_path / "none")] == [["ok"]] + [["fail"]] * 4
    assert levels(None, "hf:org/x") == ["note"]
