import gzip
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.errors import ConfigError
from sevenfold.sources.read import Record, expand, records, select

ROWS = [{"id": number, "prompt": f"line\u2028{number}"} for number in range(1, 5001)]
LINES = b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in ROWS)


def put(tmp_path: Path, name: str, data: bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


def read(tmp_path: Path, data: bytes, name: str = "in.jsonl") -> list[Record]:
    return list(records(put(tmp_path, name, data)))


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def in_parquet(tmp_path: Path, rows: list[dict[str, object]] = ROWS) -> Path:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=1500)
    return path


EVERY_FORM = [
    ("in.jsonl", LINES),
    ("crlf.jsonl", LINES.replace(b"\n", b"\r\n")),
    ("no_last_newline.jsonl", LINES[:-1]),
    ("in.jsonl.gz", gzip.compress(LINES)),
    ("members.jsonl.gz", gzip.compress(LINES[:1000]) + gzip.compress(LINES[1000:])),
    ("in.jsonl.zst", zstd(LINES)),
    ("frames.jsonl.zst", zstd(LINES[:1000]) + zstd(LINES[1000:])),
    ("named_without_suffix", gzip.compress(LINES)),
    ("array.json", json.dumps(ROWS).encode()),
    ("pretty_array.jsonl", json.dumps(ROWS, indent=1).encode()),
    ("array.json.gz", gzip.compress(json.dumps(ROWS).encode())),
]


@pytest.mark.parametrize(("name", "data"), EVERY_FORM, ids=[name for name, _ in EVERY_FORM])
def test_every_form_of_file_reads_the_same_and_skips_the_same(tmp_path: Path, name: str, data: bytes) -> None:
    path = put(tmp_path, name, data)
    assert list(records(path)) == [Record(row["id"], row) for row in ROWS]
    assert list(select(path, iter([2, 3, 4999]))) == [Record(line, ROWS[line - 1]) for line in (2, 3, 4999)]


def test_parquet_reads_the_same_and_skips_the_same(tmp_path: Path) -> None:
    path = in_parquet(tmp_path)
    assert list(records(path)) == [Record(row["id"], row) for row in ROWS]
    lines = [1, 1024, 1025, 1500, 1501, 5000]
    assert list(select(path, iter(lines))) == [Record(line, ROWS[line - 1]) for line in lines]


def test_a_parquet_row_that_is_not_utf8_is_an_error_of_its_own(tmp_path: Path) -> None:
    raw = pa.array([b"one", b"\xff", b"three"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    path = tmp_path / "bad.parquet"
    pq.write_table(pa.table({"prompt": text}), path)
    assert [(r.line, r.value, bool(r.error)) for r in records(path)] == [
        (1, {"prompt": "one"}, False),
        (2, None, True),
        (3, {"prompt": "three"}, False),
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"a": "latin \xe9t\xe9"}', "not UTF-8: byte 0xe9 at column 14"),
        (b'{"a": "cut', "not JSON: Unterminated string starting at at column 7"),
        (b'{"a": 1}{"a": 2}', "not JSON: Extra data at column 9"),
        (b'{"a": 1},', "not JSON: Extra data at column 9"),
        (b'{"a": "half \\ud835"}', "a lone surrogate, NaN or a number out of range"),
        (b'{"a": NaN}', "a lone surrogate, NaN or a number out of range"),
        (b"[" * 100_000, "not JSON that can be read"),
    ],
)
def test_a_bad_line_is_named_and_its_neighbours_are_read(tmp_path: Path, line: bytes, reason: str) -> None:
    first, bad, last = read(tmp_path, b"1\n" + line + b"\n3\n")
    assert (first, last) == (Record(1, 1), Record(3, 3))
    assert (bad.line, bad.value) == (2, None)
    assert bad.error.startswith(reason)


def test_padding_bom_and_blank_lines_are_no_rows(tmp_path: Path) -> None:
    data = b'\xef\xbb\xbf{"a": 1}\n\n \r\n' + b"\0" * 64 + b'{"a": 2}\n' + b"\0" * 32
    assert read(tmp_path, data) == [Record(1, {"a": 1}), Record(4, {"a": 2})]
    assert read(tmp_path, b'\xef\xbb\xbf[{"a": 1}]\0', "in.json") == [Record(1, {"a": 1})]
    assert read(tmp_path, b"") == []


def test_lines_that_are_lists_are_rows_of_their_own(tmp_path: Path) -> None:
    assert read(tmp_path, b'[{"a": 1}]\n[{"a": 2}]\n') == [Record(1, [{"a": 1}]), Record(2, [{"a": 2}])]


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("cut.jsonl.gz", gzip.compress(LINES)[:-2000], "cannot be read"),
        ("cut.jsonl.zst", zstd(LINES)[:-2000], "cannot be read"),
        ("cut.json", b'[{"a": 1}, {"a"', "not a JSON array"),
        ("cut.parquet", b"PAR1 and no more", "cannot be read"),
        ("wide.jsonl", '{"a": 1}\n'.encode("utf-16"), "UTF-16"),
    ],
)
def test_a_file_that_ends_too_soon_is_refused_and_never_taken_for_a_short_one(
    tmp_path: Path, name: str, data: bytes, said: str
) -> None:
    path = put(tmp_path, name, data)
    with pytest.raises(ConfigError, match=said) as caught:
        list(records(path))
    assert str(path) in caught.value.message
    assert caught.value.remedy


def test_no_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(ConfigError):
            next(records(path))


@pytest.mark.parametrize("name", ["in.jsonl", "in.parquet"])
def test_a_line_behind_the_end_is_refused(tmp_path: Path, name: str) -> None:
    path = in_parquet(tmp_path) if name.endswith("parquet") else put(tmp_path, name, LINES)
    with pytest.raises(ConfigError, match="ends before line 5001"):
        list(select(path, iter([5001])))


def test_wanted_lines_are_pulled_one_at_a_time_and_their_errors_stay_theirs(tmp_path: Path) -> None:
    pulled: list[int] = []

    def wanted() -> Iterator[int]:
        for line in (3, 5):
            pulled.append(line)
            yield line
        raise ValueError("of the caller")

    found = select(put(tmp_path, "in.jsonl", LINES), wanted())
    assert next(found).line == 3
    assert pulled == [3]
    assert next(found).line == 5
    with pytest.raises(ValueError, match="of the caller"):
        next(found)


def test_a_row_of_megabytes_is_one_row(tmp_path: Path) -> None:
    huge = {"prompt": "word " * 600_000}
    data = b'{"a": 1}\n' + json.dumps(huge).encode() + b'\n{"a": 3}\n'
    assert [record.value for record in read(tmp_path, data)] == [{"a": 1}, huge, {"a": 3}]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(JSON_VALUES, max_size=6), st.data())
def test_any_json_lines_come_back_and_any_subset_of_them(
    tmp_path_factory: pytest.TempPathFactory, values, data
) -> None:
    path = tmp_path_factory.mktemp("any") / "in.jsonl"
    path.write_bytes(b"".join(json.dumps(value, ensure_ascii=False).encode() + b"\n" for value in values))
    whole = list(records(path))
    assert whole == [Record(line, value) for line, value in enumerate(values, 1)]
    chosen = data.draw(st.lists(st.booleans(), min_size=len(whole), max_size=len(whole)))
    kept = list(itertools.compress(whole, chosen))
    assert list(select(path, (record.line for record in kept))) == kept


def test_inputs_expand_in_order_and_a_glob_sorted(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "c[1].jsonl"):
        put(tmp_path, name, b"")
    found = expand([str(tmp_path / "c[1].jsonl"), str(tmp_path / "[ab].jsonl")])
    assert [path.name for path in found] == ["c[1].jsonl", "a.jsonl", "b.jsonl"]
    for nothing in ("*.parquet", "none.jsonl", "."):
        with pytest.raises(ConfigError, match="no such file"):
            expand([tmp_path / nothing])
