"""The whole job through the command line, with fake replicas that speak the real protocol."""

import json
import os
import random
import signal
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sevenfold.ledger import Reader
from sevenfold.node.process import marked
from tests.e2e.rig import (
    audited,
    committed,
    kill,
    nothing_runs,
    report,
    rows,
    sevenfold,
    started,
    until,
    until_committed,
    write_prompts,
    write_spec,
)

QUICK = {"latency": 0.002, "sigma": 0.3}
SLOW = {"latency": 0.2, "sigma": 0.3}


def test_from_prompts_to_training_rows(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "in.jsonl", [f"Question {i}?" for i in range(60)])
    spec, run = write_spec(tmp_path, QUICK), tmp_path / "run"
    done = sevenfold("run", prompts, "-c", spec, "-o", run)
    assert "all 60 rows have an answer" in done.stderr
    assert done.stdout == ""
    status = report("status", run)
    assert status["rows"] == {"total": 60, "done": 60, "failed": 0, "refused": 0, "in_flight": 0}
    assert (status["state"], status["verdicts"], status["failures"]) == ("finished", {"ok": 60}, {})
    found = rows(run)
    assert [row["id"] for row in found] == list(range(60))
    assert {row["state"] for row in found} == {"done"}
    assert all(row["reasoning"] and row["answer"] for row in found)
    assert report("audit", run)["rows"] == 60
    assert nothing_runs(run)
    for name in ("out.jsonl", "out.parquet"):
        sevenfold("export", run, "--to", "messages", "-o", tmp_path / name)
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["messages"][0]["content"] for line in lines] == [f"Question {i}?" for i in range(60)]
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 60
    manifest = json.loads((tmp_path / "out.jsonl.manifest.json").read_text())
    assert manifest["rows"] == 60


def test_the_driver_killed_three_times_loses_and_doubles_nothing(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "in.jsonl", [f"Question {i}?" for i in range(600)])
    spec, run = write_spec(tmp_path, SLOW, judge={"trivial_tokens": 0}), tmp_path / "run"
    chance = random.Random(7)
    for _ in range(3):
        enough = committed(run) + chance.randint(20, 120)
        with started("run", prompts, "-c", spec, "-o", run) as driver:
            until_committed(run, enough)
            kill(driver)
        until(lambda: nothing_runs(run), "the replicas end with their driver")
    sevenfold("resume", run)
    audited(run, prompts)
    assert report("status", run)["rows"]["done"] == 600


def test_a_replica_killed_with_requests_in_flight_costs_no_row(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "in.jsonl", [f"Question {i}?" for i in range(400)])
    spec, run = write_spec(tmp_path, SLOW), tmp_path / "run"
    with started("run", prompts, "-c", spec, "-o", run) as driver:
        until_committed(run, 30)
        victim = next(one.process.pid for one in marked(run) if one.replica == "0")
        os.kill(victim, signal.SIGKILL)
        driver.communicate(timeout=60)
        assert driver.returncode == 0
    audited(run, prompts)
    replica = report("status", run)["replicas"][0]
    assert replica["restarts"] == 1
    assert {row["attempts"] for row in rows(run)} == {1}


def test_four_bad_rows_among_three_thousand(tmp_path: Path) -> None:
    """One answered 400, one answered 500, one that hangs, one empty with finish length."""
    texts = [f"Question {i}?" for i in range(3000)]
    bad = {7: "a four hundred", 700: "a five hundred", 1400: "a hang", 2100: "an empty one"}
    for i, text in bad.items():
        texts[i] = f"{text}, {i}"
    script = {
        **QUICK,
        "tokens": 60,
        "rules": [
            {"match": "a four hundred", "status": 400, "body": '{"error": {"message": "bad prompt"}}'},
            {"match": "a five hundred", "status": 500},
            {"match": "a hang", "hang": True},
            {"match": "an empty one", "reply": "", "reasoning": "", "finish": "length"},
        ],
    }
    prompts = write_prompts(tmp_path / "in.jsonl", texts)
    spec, run = write_spec(tmp_path, script, sampling={"max_tokens": 256}), tmp_path / "run"
    done = sevenfold("run", prompts, "-c", spec, "-o", run, code=4)
    assert "3 failed" in done.stderr
    found = {row["id"]: row for row in rows(run)}
    assert len(found) == 3000
    assert [found[i]["state"] for i in bad] == ["failed", "failed", "failed", "done"]
    assert "bad prompt" in found[7]["reason"]
    assert "500" in found[700]["reason"]
    assert "no answer within" in found[1400]["reason"]
    assert found[2100]["verdict"] == "truncated"
    assert Counter(row["verdict"] for row in found.values()) == {"ok": 2996, None: 3, "truncated": 1}
    assert report("status", run)["failures"] == {"bad_request": 1, "server_error": 1, "timeout": 1}


def test_two_thousand_six_token_replies_are_stopped_by_the_gate(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "in.jsonl", [f"Question {i}?" for i in range(2000)])
    script = {"latency": 0.01, "rules": [{"reply": "OK. It is done.", "reasoning": "Hm."}]}
    spec, run = write_spec(tmp_path, script), tmp_path / "run"
    done = sevenfold("run", prompts, "-c", spec, "-o", run, code=5)
    said = [line for line in done.stderr.splitlines() if line.startswith("sevenfold:")]
    assert len(said) == 1
    assert "trivial" in said[0]
    assert committed(run) <= 200
    assert nothing_runs(run)


def test_a_second_driver_is_refused_while_the_first_is_at_work(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "in.jsonl", [f"Question {i}?" for i in range(300)])
    spec, run = write_spec(tmp_path, SLOW), tmp_path / "run"
    with started("run", prompts, "-c", spec, "-o", run) as driver:
        until_committed(run, 1)
        done = sevenfold("resume", run, code=6)
        assert str(driver.pid) in done.stderr


def test_another_question_in_the_same_folder_is_refused_with_the_difference(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "in.jsonl", ["Question?"])
    spec, run = write_spec(tmp_path, QUICK), tmp_path / "run"
    sevenfold("run", prompts, "-c", spec, "-o", run)
    done = sevenfold("run", prompts, "-c", spec, "-o", run, "--temperature", "1.5", code=2)
    assert "sampling.temperature 0.6 -> 1.5" in done.stderr


def test_a_reordered_and_extended_input_sends_only_what_is_new(tmp_path: Path) -> None:
    texts = [f"Question {i}?" for i in range(40)]
    prompts = tmp_path / "in.jsonl"
    lines = [json.dumps({"id": i, "prompt": text}) for i, text in enumerate(texts)]
    prompts.write_text("\n".join(lines))
    spec, run = write_spec(tmp_path, QUICK), tmp_path / "run"
    sevenfold("run", prompts, "-c", spec, "-o", run)
    more = [json.dumps({"id": 40 + i, "prompt": f"Another {i}?"}) for i in range(5)]
    moved = tmp_path / "other.jsonl"
    moved.write_text("\n".join(more + lines[::-1]))
    sevenfold("run", moved, "-c", spec, "-o", run)
    assert report("status", run)["rows"]["done"] == 45
    with Reader(run) as reader:
        assert reader.tally().samples == 45


def test_the_first_ctrl_c_drains_and_resume_ends_the_run(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "in.jsonl", [f"Question {i}?" for i in range(400)])
    spec, run = write_spec(tmp_path, SLOW), tmp_path / "run"
    with started("run", prompts, "-c", spec, "-o", run) as driver:
        until_committed(run, 21)
        driver.send_signal(signal.SIGINT)
        driver.communicate(timeout=60)
        assert driver.returncode == 130
    assert nothing_runs(run)
    done = committed(run)
    assert 20 < done < 400
    sevenfold("resume", run)
    assert report("status", run)["rows"]["done"] == 400


def test_every_turn_is_committed_and_a_crash_redoes_only_the_open_one(tmp_path: Path) -> None:
    """Conversations of three turns, the driver killed in the middle: each turn is asked for once, in order."""
    prompts = tmp_path / "in.jsonl"
    with prompts.open("w") as file:
        for i in range(60):
            file.write(json.dumps({"id": i, "turns": [f"First {i}?", f"Second {i}?", f"Third {i}?"]}) + "\n")
    spec, run = write_spec(tmp_path, SLOW), tmp_path / "run"
    with started("run", prompts, "-c", spec, "-o", run) as driver:
        until_committed(run, 70)
        kill(driver)
    until(lambda: nothing_runs(run), "the replicas end with their driver")
    sevenfold("resume", run)
    found = rows(run)
    assert len(found) == 60
    assert all(len(row["turns"]) == 3 for row in found)
    with Reader(run) as reader:
        for outcome in reader.outcomes():
            history = [message.content for message in outcome.messages if message.role == "assistant"]
            assert len(history) == outcome.turn
        assert reader.tally().samples == 180
    audited(run, prompts)


def test_several_samples_of_a_prompt_differ_by_their_seed(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "in.jsonl", ["One?", "Two?"])
    spec, run = write_spec(tmp_path, QUICK), tmp_path / "run"
    sevenfold("run", prompts, "-c", spec, "-o", run, "--samples", "3", "--seed", "1")
    found = rows(run)
    assert [(row["id"], row["sample"]) for row in found] == [(i, n) for i in range(2) for n in range(3)]
    assert len({row["answer"] for row in found}) == 6


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("run",), 2, "no file of prompts was named"),
        (("run", "nowhere.jsonl"), 2, "nowhere.jsonl: no such file"),
        (("resume", "nowhere"), 2, "no such folder"),
        (("status", "nowhere"), 2, "nowhere"),
        (("rows", "nowhere"), 2, "no such folder"),
        (("audit", "nowhere"), 2, "neither a run folder nor a file"),
        (("inspect", "nowhere.jsonl"), 2, "no such file"),
        (("jump",), 2, "jump"),
    ],
)
def test_a_wrong_command_is_one_sentence_and_a_remedy(words: tuple[str, ...], code: int, said: str) -> None:
    done = sevenfold(*words, code=code)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "  -> " in done.stderr


def test_an_endpoint_that_is_not_there_is_said_before_anything_is_made(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "in.jsonl", ["Question?"])
    done = sevenfold("run", prompts, "--endpoint", "http://127.0.0.1:9", "-o", tmp_path / "run", code=7)
    assert "no endpoint answers" in done.stderr
    assert not (tmp_path / "run").exists()


def test_help_says_what_every_verb_does() -> None:
    text = sevenfold("--help").stdout
    for verb in ("run", "resume", "up", "down", "status", "logs", "rows", "inspect", "audit", "export", "demo"):
        assert verb in text
        assert "Usage" in sevenfold(verb, "--help").stdout
    assert sevenfold("--version").stdout.strip()
