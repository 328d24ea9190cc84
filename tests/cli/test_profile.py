import json
import tomllib

import pytest

from sevenfold.cli.main import main


def test_list_show_new_and_plan_hang_together(capfdbinary):
    def sevenfold(*words: str) -> str:
        assert main(words) == 0
        return capfdbinary.readouterr().out.decode()

    path = sevenfold("profile", "new", "mine", "--from", "qwen3.6-27b-b200").strip()
    assert path.endswith("sevenfold/profiles/mine.toml")
    listed = sevenfold("profile", "list")
    assert f"[{path}]" in next(line for line in listed.splitlines() if line.startswith("mine "))
    assert {"mine", "qwen3.6-27b-b200"} <= {one["name"] for one in json.loads(sevenfold("profile", "list", "--json"))}
    shown = tomllib.loads(sevenfold("profile", "show", "mine"))
    assert shown["flags"] == json.loads(sevenfold("profile", "show", "mine", "--json"))["flags"]
    assert shown["flags"]["max-running-requests"] == 320
    assert json.loads(sevenfold("plan", "--profile", "mine", "--json"))["replica"]["max_running_requests"] == 320


@pytest.mark.parametrize("words", [("show", "nobody"), ("new", "mine", "--from", "nobody"), ("new", "mine")])
def test_mistakes_are_exit_code_2(words, capsys):
    assert main(["profile", *words]) == 2
    assert "->" in capsys.readouterr().err
