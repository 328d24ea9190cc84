import hashlib
import itertools
import json
import os
import queue
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.errors import ConfigError, NodeError
from sevenfold.sources.index import COMMIT_ROWS, Counts, Entry, Index, InputFile, Refusal


def put(path: Path, *rows: object) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def prompt(text: object, **columns: object) -> dict[str, object]:
    return {"prompt": str(text), **columns}


def entries(index: Index, size: int = 3) -> Iterator[Entry]:
    after = 0
    while chunk := index.chunk(after, size):
        after = chunk[-1].ordinal
        yield from chunk


def keys(tmp_path: Path, *files: Path) -> list[str]:
    index = Index(tmp_path / "keys.sqlite")
    index.build(files, "last")
    return [entry.key for entry in entries(index)]


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return Index(tmp_path / "index.sqlite")


def test_nothing_is_known_before_a_build(tmp_path: Path, index: Index) -> None:
    assert (index.complete, index.counts(), index.chunk(0, 9), index.files()) == (False, Counts(), [], ())
    assert list(index.refusals()) == []
    assert not index.is_current([put(tmp_path / "in.jsonl", prompt(1))], "last")


def test_accepted_rows_are_numbered_and_refused_ones_are_named(tmp_path: Path, index: Index) -> None:
    one = put(tmp_path / "one.jsonl", prompt(1), "{broken", "", {"turns": ["2", "3"]})
    two = put(tmp_path / "two.jsonl", {"text": "no form"}, prompt(4), prompt(1))
    index.build([one, two], "last")
    found = list(entries(index, 2))
    assert [(e.ordinal, e.turns, e.file, e.line, e.twin) for e in found] == [
        (1, 1, 0, 1, 0),
        (2, 2, 0, 4, 0),
        (3, 1, 1, 2, 0),
        (4, 1, 1, 3, 1),
    ]
    assert [len(bytes.fromhex(e.key)) for e in found] == [16] * 4
    assert index.complete
    assert index.counts() == Counts(rows=4, refused=2, twins=1, asks=5, formats={"prompt": 3, "turns": 1})
    assert list(index.refusals()) == [
        Refusal(str(one), 2, "not JSON: Expecting property name enclosed in double quotes at column 2"),
        Refusal(str(two), 1, "no known column among: text"),
    ]
    stat = one.stat()
    digest = hashlib.sha256(one.read_bytes()).hexdigest()
    assert index.files()[0] == InputFile(str(one), stat.st_size, stat.st_mtime_ns, 2, digest)
    assert [file.rows for file in index.files()] == [2, 2]


def test_more_refusals_than_a_page_are_all_listed(tmp_path: Path, index: Index) -> None:
    index.build([put(tmp_path / "in.jsonl", *["x"] * 2500)], "last")
    assert [refusal.line for refusal in index.refusals()] == list(range(1, 2501))


@given(st.lists(st.integers(0, 4), max_size=12), st.data())
def test_keys_depend_on_neither_order_nor_files_nor_what_else_is_there(
    tmp_path_factory: pytest.TempPathFactory, texts: list[int], data: st.DataObject
) -> None:
    tmp_path = tmp_path_factory.mktemp("keys")
    together = keys(tmp_path, put(tmp_path / "all.jsonl", *map(prompt, texts)))
    assert len(set(together)) == len(texts)
    moved = data.draw(st.permutations(texts))
    cut = data.draw(st.integers(0, len(moved)))
    left, right = (
        put(tmp_path / "l.jsonl", *map(prompt, moved[:cut])),
        put(tmp_path / "r.jsonl", *map(prompt, moved[cut:])),
    )
    assert sorted(keys(tmp_path, left, right)) == sorted(together)
    longer = keys(tmp_path, put(tmp_path / "all.jsonl", *map(prompt, [*texts, 5])))
    assert longer[:-1] == together


def test_one_id_on_two_prompts_is_two_rows_and_twins_stay_apart(tmp_path: Path, index: Index) -> None:
    rows = [prompt("a", id="q"), prompt("b", id="q"), prompt("a", id="q"), prompt("a", id="r"), prompt("a", id="q")]
    index.build([put(tmp_path / "in.jsonl", *rows)], "last")
    assert [entry.twin for entry in entries(index)] == [0, 0, 1, 0, 2]
    assert len({entry.key for entry in entries(index)}) == 5
    assert index.counts().twins == 2


def test_an_index_is_current_until_an_input_or_the_way_of_asking_changes(tmp_path: Path, index: Index) -> None:
    one, two = put(tmp_path / "one.jsonl", prompt(1)), put(tmp_path / "two.jsonl", prompt(2))
    index.build([one, two], "last")
    assert Index(tmp_path / "index.sqlite").is_current([one, two], "last")
    assert not index.is_current([one, two], "all")
    assert not index.is_current([two, one], "last")
    assert not index.is_current([one], "last")
    os.utime(one, ns=(1, 1))
    assert not index.is_current([one, two], "last")
    with pytest.raises(ConfigError, match=r"none\.jsonl"):
        index.is_current([tmp_path / "none.jsonl"], "last")


def test_a_second_build_replaces_the_first_and_clear_empties(tmp_path: Path, index: Index) -> None:
    path = put(tmp_path / "in.jsonl", prompt(1), prompt(2), "x")
    index.build([path], "last")
    index.build([put(path, prompt(3))], "last")
    assert index.counts() == Counts(rows=1, asks=1, formats={"prompt": 1})
    assert [entry.ordinal for entry in entries(index)] == [1]
    assert list(index.refusals()) == []
    index.clear()
    assert (index.complete, index.counts(), index.chunk(0, 9)) == (False, Counts(), [])


def test_a_reader_follows_a_build_and_a_stopped_build_is_not_complete(tmp_path: Path, index: Index) -> None:
    """The builder waits in `tick` until the reader, in this thread, has looked."""
    path = put(tmp_path / "in.jsonl", *map(prompt, range(COMMIT_ROWS * 2)))
    committed: queue.Queue[int] = queue.Queue()
    go_on = threading.Semaphore(0)

    def tick(rows: int) -> None:
        committed.put(rows)
        assert go_on.acquire(timeout=30)
        if rows > COMMIT_ROWS:
            raise InterruptedError

    def build() -> None:
        with pytest.raises(InterruptedError):
            index.build([path], "last", tick)

    builder = threading.Thread(target=build)
    builder.start()
    assert committed.get(timeout=30) == COMMIT_ROWS
    assert not index.complete
    assert index.counts().rows == COMMIT_ROWS
    assert [entry.ordinal for entry in index.chunk(COMMIT_ROWS - 2, 99)] == [COMMIT_ROWS - 1, COMMIT_ROWS]
    go_on.release(2)
    builder.join(timeout=30)
    assert not index.complete
    assert index.counts().rows == COMMIT_ROWS * 2


def test_an_input_that_cannot_be_read_leaves_an_incomplete_index(tmp_path: Path, index: Index) -> None:
    path = tmp_path / "cut.json"
    path.write_text('[{"prompt": "1"}')
    with pytest.raises(ConfigError, match=r"cut\.json"):
        index.build([path], "last")
    assert not index.complete
    with pytest.raises(ConfigError, match=r"none\.jsonl"):
        index.build([tmp_path / "none.jsonl"], "last")


def test_a_damaged_index_is_named_and_built_anew(tmp_path: Path, index: Index) -> None:
    path = put(tmp_path / "in.jsonl", prompt(1))
    (tmp_path / "index.sqlite").write_bytes(b"no database at all" * 999)
    with pytest.raises(NodeError, match=r"index\.sqlite") as caught:
        index.counts()
    assert caught.value.remedy
    assert not index.is_current([path], "last")
    index.build([path], "last")
    assert index.counts().rows == 1


def test_a_build_does_not_throw_away_what_another_one_holds(tmp_path: Path, index: Index) -> None:
    path = put(tmp_path / "in.jsonl", prompt(1))
    index.build([path], "last")
    other = sqlite3.connect(tmp_path / "index.sqlite")
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(NodeError, match="locked"):
        Index(tmp_path / "index.sqlite", patience=0).build([path], "last")
    other.close()
    assert index.counts().rows == 1


def test_tables_of_another_version_are_not_read(tmp_path: Path, index: Index) -> None:
    path = put(tmp_path / "in.jsonl", prompt(1))
    index.build([path], "last")
    db = sqlite3.connect(tmp_path / "index.sqlite")
    db.execute("PRAGMA user_version = 999")
    db.close()
    assert not index.is_current([path], "last")
    assert list(itertools.islice(entries(index), 1)) == []


def test_a_place_that_cannot_be_written_is_the_machines_fault(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="unable to open"):
        Index(tmp_path / "no folder" / "index.sqlite").build([put(tmp_path / "in.jsonl", prompt(1))], "last")


def test_rows_are_found_by_the_order_of_their_keys_and_by_ordinal(tmp_path: Path, index: Index) -> None:
    index.build([put(tmp_path / "a.jsonl", *(prompt(str(i)) for i in range(7)))], "last")
    by_ordinal = list(entries(index))
    found: list[tuple[bytes, int]] = []
    while page := index.keys(found[-1][0] if found else b"", 3):
        found += page
    assert found == sorted((bytes.fromhex(entry.key), entry.ordinal) for entry in by_ordinal)
    assert index.entries([2, 5]) == [by_ordinal[1], by_ordinal[4]]
