"""The auditor finds what it is there to find: it is the proof behind every claim that a run holds each row once."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from sevenfold.ledger import Writer
from sevenfold.types import Failure, Message, Origin, Sample
from tests import auditor
from tests.ledger.rows import failure, sample

AUDITOR = Path(__file__).parents[1] / "auditor.py"


def audited(run: Path, rows: list[object], samples: int = 1) -> dict[str, int]:
    return auditor.audit(run, write(run, rows), samples)


def write(run: Path, rows: list[object]) -> Path:
    source = run / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return source


def found(outcomes: int, failures: int = 0, missing: int = 0, doubled: int = 0, foreign: int = 0) -> dict[str, int]:
    return {
        "input rows": 3,
        "outcomes": outcomes,
        "failures": failures,
        "missing": missing,
        "doubled": doubled,
        "foreign": foreign,
    }


def asked(number: int, text: str, **more: int) -> Sample:
    return msgspec.structs.replace(sample(number, **more), messages=(Message("user", text),))


THREE: list[object] = [
    {"prompt": "question 0"},
    {"question": "question 1"},
    {"messages": [{"role": "user", "content": "question 2"}]},
]


def commit(run: Path, *outcomes: Sample | Failure) -> None:
    with Writer(run) as writer:
        assert all(writer.commit(outcomes))


def test_a_whole_run(run: Path) -> None:
    commit(run, sample(2), failure(1), sample(0))
    assert audited(run, THREE) == found(3, failures=1)


def test_the_order_of_the_input_means_nothing(run: Path) -> None:
    commit(run, *(sample(number) for number in range(3)))
    assert audited(run, THREE[::-1]) == found(3)


def test_a_missing_row(run: Path) -> None:
    commit(run, sample(0), sample(2))
    assert audited(run, THREE) == found(2, missing=1)


def test_a_missing_sample(run: Path) -> None:
    commit(run, *(sample(number, sample=s) for number in range(3) for s in range(2)))
    assert audited(run, THREE, samples=2) == found(6)
    assert audited(run, THREE, samples=3) == found(6, missing=3)


def test_one_prompt_answered_under_two_keys(run: Path) -> None:
    commit(run, *(sample(number) for number in range(3)), asked(7, "question 1"))
    assert audited(run, THREE) == found(4, doubled=1)


def test_an_answer_to_a_prompt_that_is_not_in_the_input(run: Path) -> None:
    commit(run, sample(0), sample(1), asked(2, "question 22"))
    assert audited(run, THREE) == found(3, missing=1, foreign=1)


def test_a_failure_of_a_line_that_is_not_in_the_input(run: Path) -> None:
    commit(run, sample(0), sample(1), msgspec.structs.replace(failure(2), origin=Origin("in.jsonl", 9)))
    assert audited(run, THREE) == found(3, failures=1, missing=1, foreign=1)


def test_a_sample_number_that_was_not_asked_for(run: Path) -> None:
    commit(run, *(sample(number) for number in range(3)), sample(1, sample=1))
    assert audited(run, THREE) == found(4, foreign=1)


def test_exact_twins_are_two_rows(run: Path) -> None:
    commit(run, asked(0, "same"), asked(1, "same"), asked(2, "other"))
    assert audited(run, [{"prompt": "same"}, {"prompt": "same"}, {"prompt": "other"}]) == found(3)
    assert audited(run, [{"prompt": "same"}, {"prompt": "other"}, {"prompt": "other"}]) == found(
        3, missing=1, doubled=1
    )


def test_turns_with_the_answers_between_them(run: Path) -> None:
    first = asked(2, "a", turns=2)
    history = (Message("user", "a"), Message("assistant", "yes"), Message("user", "b"))
    second = msgspec.structs.replace(sample(2, turn=1, turns=2), messages=history)
    rows: list[object] = [*THREE[:2], {"turns": ["a", "b"]}]
    commit(run, sample(0), sample(1), first)
    assert audited(run, rows) == found(3, missing=1)
    commit(run, second)
    assert audited(run, rows) == found(4)


def test_sharegpt_with_system_and_old_answers(run: Path) -> None:
    said = (Message("system", "be kind"), Message("user", "a"), Message("assistant", "old"), Message("user", "b"))
    commit(run, sample(0), sample(1), msgspec.structs.replace(sample(2), messages=said))
    turns = [{"from": "human", "value": "a"}, {"from": "gpt", "value": "old"}, {"from": "human", "value": "b"}]
    row = {"system": "be kind", "conversations": [*turns, {"from": "gpt", "value": "older"}]}
    assert audited(run, [*THREE[:2], row]) == found(3)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        ("DELETE FROM record WHERE id = 2", found(3, missing=1, foreign=1)),
        ("DELETE FROM outcome WHERE record = 2", found(3, missing=1, foreign=1)),
        ("UPDATE outcome SET record = 1 WHERE record = 2", found(4, missing=1, foreign=2)),
        ("UPDATE outcome SET turn = 1 WHERE record = 2", found(3, missing=1, foreign=1)),
    ],
)
def test_tables_that_do_not_agree(run: Path, damage: str, expected: dict[str, int]) -> None:
    commit(run, *(sample(number) for number in range(3)))
    with closing(sqlite3.connect(run / "ledger" / "00.sqlite", isolation_level=None)) as db:
        db.execute(damage)
    assert audited(run, THREE) == expected


def test_lines_that_nobody_could_ask_are_no_rows(run: Path) -> None:
    commit(run, *(sample(number) for number in range(3)))
    assert audited(run, [*THREE, {"other": 1}, 5, {"prompt": ""}]) == found(3)


@pytest.mark.parametrize(("rows", "code", "said"), [(THREE, 0, "missing 0"), (THREE + THREE[:2], 1, "missing 2")])
def test_as_a_program(run: Path, rows: list[object], code: int, said: str) -> None:
    commit(run, *(sample(number) for number in range(3)))
    argv = [sys.executable, "-I", str(AUDITOR), str(run), str(write(run, rows))]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (code, "")
    assert said in done.stdout
