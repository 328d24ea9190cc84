import json
from pathlib import Path

import msgspec
import pytest

from sevenfold.errors import ConfigError
from sevenfold.sources import inspect, summary
from sevenfold.sources.index import Refusal
from sevenfold.sources.inspect import SHOWN, FileFacts, SharedId


def put(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_all_that_a_user_asks_before_a_run_is_told(tmp_path: Path) -> None:
    rows = [("q1", "Peru?"), ("q1", "Chad?"), ("q2", "Fiji?"), ("q1", "Peru?"), (None, "1?"), (None, "2?")]
    one = put(tmp_path / "one.jsonl", *({"id": found, "prompt": text} for found, text in rows))
    two = put(tmp_path / "two.jsonl", {"turns": ["a" * 99, "b"]}, {"prompt": ""}, 42)
    found = inspect([str(tmp_path / "*.jsonl")], "last")
    assert found.files == (FileFacts(str(one), {"prompt": 6}, 6, 0), FileFacts(str(two), {"turns": 1}, 1, 2))
    assert (found.accepted, found.twins, found.asks) == (7, 1, 8)
    assert found.refused == (
        Refusal(str(two), 2, "prompt is blank"),
        Refusal(str(two), 3, "the row is not a JSON object"),
    )
    assert found.shared_ids == (SharedId("q1", 3, 2),)
    assert found.characters == {"p0": 2, "p1": 2, "p10": 2, "p50": 5, "p90": 5, "p99": 100, "p100": 100}
    assert summary(found).splitlines() == [
        f"{one}: 6 prompt",
        f"{two}: 1 turns, 2 refused",
        "7 rows accepted (8 completions per sample), 2 refused",
        "1 rows repeat an earlier row exactly; each is asked for itself",
        "characters per row: p0 2  p1 2  p10 2  p50 5  p90 5  p99 100  p100 100",
        "id 'q1': 3 rows, 2 different prompts",
        f"refused {two}:2: prompt is blank",
        f"refused {two}:3: the row is not a JSON object",
    ]


def test_the_text_is_one_screen_and_the_json_is_whole(tmp_path: Path) -> None:
    path = put(tmp_path / "in.jsonl", *[7] * (SHOWN + 5))
    found = inspect([path])
    assert summary(found).splitlines()[-1] == "... and 5 more refused rows; --json lists all"
    assert len(summary(found).splitlines()) == SHOWN + 3
    assert len(msgspec.json.decode(msgspec.json.encode(found))["refused"]) == SHOWN + 5
    assert found.characters == {}


def test_a_file_without_rows_is_said_to_have_none(tmp_path: Path) -> None:
    path = put(tmp_path / "in.jsonl")
    assert summary(inspect([path])).splitlines()[0] == f"{path}: no rows"


def test_an_input_that_names_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        inspect([tmp_path / "none.jsonl"])
