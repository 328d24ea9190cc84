import json
import subprocess
from typing import Any

import pytest

from sevenfold.cli.main import main

AS_FOUND, FAST = "qwen3.6-27b-b200-asfound", "qwen3.6-27b-b200-fast"


@pytest.fixture
def sevenfold(capfdbinary):
    """Runs a command line; its exit code, stdout and stderr."""

    def run(*words: object) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return run


def test_json_holds_what_is_promised_and_nothing_else(sevenfold):
    asked = ("--gpu", "B200", "--replicas", 7, "--rows", 902087, "--mean-output", 2000, "--price", 4, "--json")
    code, out, err = sevenfold("plan", "--profile", AS_FOUND, *asked)
    report: dict[str, Any] = json.loads(out)
    assert (code, err) == (0, "")
    assert sorted(report) == ["argv", "estimated", "findings", "fleet", "replica"]
    replica = ["binding_limit", "kv_tokens", "max_running_requests", "state_slots", "weights_bytes"]
    assert sorted(report["replica"]) == replica
    assert sorted(report["fleet"]) == ["cost", "hours", "tokens_per_second"]
    assert (report["replica"]["max_running_requests"], report["replica"]["state_slots"]) == (16, 80)
    assert report["estimated"] is True
    assert [argv[argv.index("--port") + 1] for argv in report["argv"]] == [str(30000 + i) for i in range(7)]
    assert {finding["severity"] for finding in report["findings"]} == {"warn", "note"}


def test_several_profiles_are_an_object_by_their_names(sevenfold):
    one = json.loads(sevenfold("plan", "--profile", AS_FOUND, "--json")[1])
    both = json.loads(sevenfold("plan", "--profile", AS_FOUND, "--profile", FAST, "--json")[1])
    assert list(both) == [AS_FOUND, FAST]
    assert both[AS_FOUND] == one


def test_without_a_profile_the_launch_as_found_stands_beside_the_best(sevenfold):
    asked = ("--gpu", "B200", "--replicas", 7, "--rows", 902087, "--mean-output", 2000, "--price", 4)
    code, out, _ = sevenfold("plan", *asked)
    lines = out.splitlines()
    assert code == 0
    assert lines[0].startswith("902,087 rows of 180 tokens in and 2,000 out")
    assert lines[2].split() == [AS_FOUND, FAST]
    figures = {line[:18].strip(): line[18:].split() for line in lines[3:12]}
    assert figures["running requests"] == ["16", "512"]
    for figure in ("tokens/s, fleet", "hours", "cost"):
        found, best = (float(number.replace(",", "")) for number in figures[figure])
        assert found < best if figure == "tokens/s, fleet" else found > 3 * best
    assert "  limit: 80 state slots at 5 per request (extra_buffer prefix cache) let 16 requests run; --disable" in out
    assert "  estimated: B200 with this engine version was never measured" in out
    commands = [line for line in lines if line.startswith("  [")]
    assert len(commands) == 14
    assert commands[6].startswith("  [6] CUDA_VISIBLE_DEVICES=6 SGLANG_ENABLE_SPEC_V2=1 ")


def test_an_error_among_the_findings_is_exit_code_2(sevenfold):
    code, out, _ = sevenfold("plan", "--profile", AS_FOUND, "--engine-version", "0.5.23")
    assert code == 2
    assert "error: sglang 0.5.23 does not know --mamba-scheduler-strategy any more" in out
    code, out, _ = sevenfold("plan", "--profile", AS_FOUND, "--gpu", "L40S", "--json")
    assert code == 2
    assert json.loads(out)["replica"] is None


def test_no_script_is_written_for_what_would_not_start(sevenfold):
    code, out, err = sevenfold("plan", "--profile", AS_FOUND, "--engine-version", "0.5.23", "--script")
    assert (code, out) == (2, "")
    assert "error: sglang 0.5.23" in err


def test_the_script_is_stdout_and_the_findings_are_talk(sevenfold):
    code, out, err = sevenfold("plan", "--profile", AS_FOUND, "--script")
    assert code == 0
    assert out.startswith("#!/usr/bin/env bash\n# 7 x Qwen/Qwen3.6-27B with sglang 0.5.11 on B200")
    assert subprocess.run(["bash", "-n"], input=out, text=True).returncode == 0
    assert err.startswith("warn: ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "no profile and no GPU was named"),
        (("--gpu", "B200", "--script"), "--script is for one profile"),
        (("--gpu", "B2000"), "unknown GPU 'B2000'"),
        (("--profile", "qwen3.6-27b-b2"), "did you mean qwen3.6-27b-b200"),
        (("--gpu", "B200", "--mean-output", 0), "--mean-output: out of range"),
        (("--gpu", "B200", "--mean-prompt", "nan"), "--mean-prompt: out of range"),
        (("--gpu", "B200", "--rows", -1), "--rows: out of range"),
        (("--gpu", "B200", "--engine-version", "new"), "'new' is not a version"),
    ],
)
def test_mistakes_are_exit_code_2_and_one_sentence(words, says, sevenfold):
    code, out, err = sevenfold("plan", *words)
    assert (code, out) == (2, "")
    assert says in err
