"""Real interpreters, and a package that is there because PYTHONPATH says so."""

import sys
from pathlib import Path

import pytest

from sevenfold.node.flags import installed, known_flags

TELLS = """
import pathlib
with pathlib.Path({asked!r}).open("a") as file:
    file.write("asked ")
print("a word of the engine's own")
print('["--one", "-o"]')
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    info = tmp_path / "site" / "acme_engine-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-engine\nVersion: 1.2\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    return "acme-engine"


def test_a_version_is_read_without_importing_the_engine(engine):
    assert installed(sys.executable, engine) == "1.2"
    assert installed(sys.executable, "no-such-engine") == ""
    assert installed("/no/such/python", engine) == ""


def test_flags_are_asked_once_per_interpreter_version_and_program(tmp_path):
    asked = tmp_path / "asked"
    program = TELLS.format(asked=str(asked))
    for python, version, times in (
        (sys.executable, "1.2", 1),
        (sys.executable, "1.2", 1),
        (sys.executable, "1.3", 2),
        (str(Path(sys.executable).parent / "python3"), "1.3", 3),
    ):
        assert known_flags(python, "acme", version, program, tmp_path / "cache") == {"--one", "-o"}
        assert len(asked.read_text().split()) == times


@pytest.mark.parametrize("program", ["import no_such_engine", "print('no JSON')", "print([])", ""])
def test_an_engine_that_does_not_tell_is_not_remembered(program, tmp_path):
    assert known_flags(sys.executable, "acme", "1", program, tmp_path / "cache") is None
    assert not (tmp_path / "cache").exists()


def test_a_cache_that_cannot_be_used_costs_nothing_but_time(tmp_path):
    (tmp_path / "cache").write_text("a file where a folder should be")
    assert known_flags(sys.executable, "acme", "1", "print('[\"--a\"]')", tmp_path / "cache") == {"--a"}


def test_a_spoilt_cache_is_asked_anew(tmp_path):
    assert known_flags(sys.executable, "acme", "1", "print('[\"--a\"]')", tmp_path) == {"--a"}
    (kept,) = (tmp_path / "flags").iterdir()
    kept.write_text("[")
    assert known_flags(sys.executable, "acme", "1", "print('[\"--a\"]')", tmp_path) == {"--a"}
    assert kept.read_text() == '["--a"]'
