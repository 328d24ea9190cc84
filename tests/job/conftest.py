from pathlib import Path

import pytest

SERVER_ARGS = """
class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        for flag in FLAGS:
            parser.add_argument("--" + flag)
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing of the user who runs the tests: no profiles, no cache, no engine."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def sglang(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of that name, version 0.5.11, with an argument parser of its own."""
    site = home / "site"
    (site / "sglang" / "srt").mkdir(parents=True)
    (site / "sglang-0.5.11.dist-info").mkdir()
    (site / "sglang-0.5.11.dist-info" / "METADATA").write_text("Name: sglang\nVersion: 0.5.11\n")
    flags = ["disable-radix-cache", "max-running-requests", "cuda-graph-max-bs", "mem-fraction-static"]
    source = f"FLAGS = {[*flags, 'context-length', 'reasoning-parser']}\n{SERVER_ARGS}"
    (site / "sglang" / "srt" / "server_args.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(site))
    return site
