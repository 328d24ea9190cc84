import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sevenfold.errors import ConfigError
from sevenfold.sources.feed import prompts
from sevenfold.sources.index import Entry, Index
from sevenfold.types import Message, Origin, Prompt

ROWS: list[dict[str, object]] = [{"id": number, "prompt": f"Say {number % 7}."} for number in range(20)]


def jsonl(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def inputs(tmp_path: Path) -> list[Path]:
    """Rows 0 to 9 as lines with a refused one among them, 10 to 14 as Parquet, none, 15 to 19 as an array."""
    one = jsonl(tmp_path / "one.jsonl", [*ROWS[:4], {"prompt": ""}, *ROWS[4:10]])
    two = tmp_path / "two.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS[10:15]), two)
    empty = jsonl(tmp_path / "empty.jsonl", [])
    three = tmp_path / "three.json"
    three.write_text(json.dumps(ROWS[15:]))
    return [one, two, empty, three]


def indexed(tmp_path: Path, inputs: list[Path]) -> list[Entry]:
    index = Index(tmp_path / "index.sqlite")
    index.build(inputs, "last")
    return index.chunk(0, 1000)


def test_every_row_comes_back_with_its_key_and_place(tmp_path: Path, inputs: list[Path]) -> None:
    entries = indexed(tmp_path, inputs)
    found = list(prompts(inputs, "last", iter(entries)))
    assert [prompt.id for prompt in found] == list(range(20))
    assert [prompt.key for prompt in found] == [entry.key for entry in entries]
    assert found[4] == Prompt(entries[4].key, 4, ((Message("user", "Say 4."),),), Origin(str(inputs[0]), 6))
    assert found[16].origin == Origin(str(inputs[3]), 2)


def test_any_ascending_choice_of_rows_comes_back(tmp_path: Path, inputs: list[Path]) -> None:
    entries = indexed(tmp_path, inputs)
    for chosen in ([3, 4, 9], [0, 19], [11, 13, 15], [12], []):
        wanted = iter([entries[number] for number in chosen])
        assert [prompt.id for prompt in prompts(inputs, "last", wanted)] == chosen


def test_wanted_rows_are_pulled_one_at_a_time(tmp_path: Path, inputs: list[Path]) -> None:
    entries = indexed(tmp_path, inputs)
    pulled: list[int] = []

    def wanted() -> Iterator[Entry]:
        for entry in entries:
            pulled.append(entry.ordinal)
            yield entry

    found = prompts(inputs, "last", wanted())
    for ordinal in range(1, 20):
        next(found)
        assert pulled == list(range(1, ordinal + 1))


def test_twins_and_turns_and_parameters_are_carried(tmp_path: Path) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "temperature": 0.5, "tools": [{"type": "function"}]}
    inputs = [jsonl(tmp_path / "in.jsonl", [{"body": body}, {"turns": ["1", "2"]}, {"body": body}])]
    first, talk, twin = prompts(inputs, "last", iter(indexed(tmp_path, inputs)))
    assert (first.sampling, first.tools) == ({"temperature": 0.5}, ({"type": "function"},))
    assert talk.turns == ((Message("user", "1"),), (Message("user", "2"),))
    assert twin.turns == first.turns
    assert twin.key != first.key


def test_parquet_and_lines_give_the_same_keys(tmp_path: Path) -> None:
    """Parquet fills every field that a row lacks with null."""
    call = {"id": "c", "type": "function", "function": {"name": "w", "arguments": "{}"}}
    talk = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "4C", "tool_call_id": "c"},
    ]
    rows: list[dict[str, object]] = [{"id": 1, "messages": talk}, {"id": 2, "messages": talk[:1]}]
    table = tmp_path / "in.parquet"
    pq.write_table(pa.Table.from_pylist(rows), table)
    keys = [[entry.key for entry in indexed(tmp_path, [path])] for path in (table, jsonl(tmp_path / "in.jsonl", rows))]
    assert keys[0] == keys[1]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ([ROWS[0], ROWS[2], ROWS[1]], "line 2 changed after it was indexed"),
        ([ROWS[0], {"prompt": ""}, ROWS[1]], "line 2 changed after it was indexed"),
        (ROWS[:1], "ends before line 2"),
    ],
)
def test_a_file_that_changed_is_noticed_before_an_answer_is_paired_wrongly(
    tmp_path: Path, changed: list[dict[str, object]], said: str
) -> None:
    inputs = [jsonl(tmp_path / "in.jsonl", ROWS[:3])]
    found = prompts(inputs, "last", iter(indexed(tmp_path, inputs)))
    jsonl(inputs[0], changed)
    assert next(found).id == 0
    with pytest.raises(ConfigError, match=said):
        next(found)
