import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from pyarrow import parquet

from sevenfold.errors import ConfigError, NodeError
from sevenfold.shards import messages_row, write
from sevenfold.shards.parquet import ROW_GROUP
from sevenfold.types import JSON
from tests.shards.samples import conversation, sample


def rows(*names: str | int | None) -> list[JSON]:
    made = [messages_row([sample(name=name)]) for name in names]
    return [row for row in made if row is not None]


def broken(error: Exception) -> Iterator[JSON]:
    yield from rows("q1")
    raise error


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out.jsonl.zst", "out"])
def test_lines_read_back_as_they_were(tmp_path: Path, name: str) -> None:
    given = rows(1, "1", None)
    path = tmp_path / name
    written = write(given, path, "messages", {})
    content = path.read_bytes()
    assert (written.rows, written.bytes, written.sha256) == (3, len(content), hashlib.sha256(content).hexdigest())
    if name.endswith(".gz"):
        content = gzip.decompress(content)
    elif name.endswith(".zst"):
        content = zstandard.ZstdDecompressor().decompressobj().decompress(content)
    assert [json.loads(line) for line in content.decode().splitlines()] == given


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out.jsonl.zst", "out.parquet"])
def test_the_same_rows_give_the_same_bytes(tmp_path: Path, name: str) -> None:
    first = write(rows(1, 2), tmp_path / name, "messages", {})
    again = write(rows(1, 2), tmp_path / "other" / name, "messages", {})
    assert first == again


def test_parquet_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    call = {"id": "c1", "function": {"name": "now"}}
    with_tools = messages_row([sample(name=None, tools=({"type": "function"},), tool_calls=(call,))])
    long = messages_row(conversation(2))
    assert with_tools is not None
    assert long is not None
    written = write([*rows(7), long, with_tools], path, "messages", {})
    table = parquet.read_table(path)
    first, second, third = table.to_pylist()
    assert (written.rows, written.bytes) == (3, path.stat().st_size)
    assert written.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (first["id"], first["usage"]["completion_tokens"], first["tools"], first["thinking"]) == (
        "7",
        20,
        None,
        True,
    )
    assert [(m["role"], m["content"], m["reasoning_content"]) for m in second["messages"]] == [
        ("user", "question 0 猫", None),
        ("assistant", "answer 0", "a thought"),
        ("user", "question 1 猫", None),
        ("assistant", "answer 1", "a thought"),
    ]
    assert third["id"] is None
    assert (json.loads(third["tools"]), json.loads(third["messages"][-1]["tool_calls"])) == (
        [{"type": "function"}],
        [call],
    )


def test_parquet_is_streamed_in_row_groups_and_may_be_empty(tmp_path: Path) -> None:
    write(rows(*range(ROW_GROUP + 1)), tmp_path / "many.parquet", "messages", {})
    write([], tmp_path / "none.parquet", "messages", {})
    assert parquet.ParquetFile(tmp_path / "many.parquet").num_row_groups == 2
    assert parquet.read_table(tmp_path / "none.parquet").num_rows == 0


def test_the_manifest_says_what_lies_there(tmp_path: Path) -> None:
    written = write(rows(1, 2), tmp_path / "out.jsonl", "messages", {"run": "abc"})
    assert json.loads((tmp_path / "out.jsonl.manifest.json").read_text()) == {
        "run": "abc",
        "file": "out.jsonl",
        "format": "messages",
        "rows": 2,
        "bytes": written.bytes,
        "sha256": written.sha256,
        "verdicts": {"ok": 2},
    }


def test_a_file_that_is_there_is_replaced_only_by_force(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("precious")
    with pytest.raises(ConfigError, match="is there already"):
        write(broken(AssertionError("rows must not be read")), path, "messages", {})
    assert path.read_text() == "precious"
    assert write(rows(1), path, "messages", {}, force=True).rows == 1


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out.jsonl.zst", "out.parquet"])
def test_a_source_that_breaks_leaves_the_old_file_and_nothing_else(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("old")
    with pytest.raises(LookupError):
        write(broken(LookupError("gone")), path, "messages", {}, force=True)
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert path.read_text() == "old"


def test_a_disk_that_refuses_is_the_machines_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NodeError, match="cannot be written"):
        write(rows(1), tmp_path / "file" / "out.jsonl", "messages", {})


def test_an_unknown_format_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no training format is called chat"):
        write(rows(1), tmp_path / "out.jsonl", "chat", {})
    with pytest.raises(ConfigError, match="is a folder"):
        write(rows(1), tmp_path, "messages", {})
