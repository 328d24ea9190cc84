"""Files as numbered rows: JSONL, a whole JSON array, Parquet; plain, gzip or zstd by content, never by name.

Promises that every row of a file is either read or named with its line: a bad line is a Record with an error, and a
file that cannot be read to its end is a ConfigError, never a short file. Memory does not grow with JSONL or Parquet; a
JSON array is held whole. Knows nothing of what a row means.
"""

import contextlib
import glob
import importlib
import io
import itertools
import json
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from sevenfold.errors import ConfigError

MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
BOM = b"\xef\xbb\xbf"
UTF16 = (b"\xff\xfe", b"\xfe\xff")
PADDING = b"\0 \t\r\n"
"""NUL among them: a file system leaves runs of it where a writer was cut off by a power loss."""
LINE_SUFFIXES = (".jsonl", ".ndjson")
BUFFER = 1 << 20
"""Bytes read at once: large enough that lines are counted at memory speed."""
PARQUET_BATCH = 1024
"""Rows of Parquet in memory at once."""


class Record(msgspec.Struct, frozen=True):
    """One row. `line` counts from 1: lines of JSONL, elements of an array, rows of Parquet."""

    line: int
    value: object = None
    error: str = ""
    """Why there is no value; empty where there is one."""


def records(path: Path) -> Iterator[Record]:
    """Every row that is not blank. ConfigError where the file cannot be read."""
    if _is_parquet(path):
        for first, batch in _batches(path):
            yield from _parse_batch(first, batch)
        return
    for line, raw in enumerate(_raw_rows(path), 1):
        record = _parse(line, raw)
        if record is not None:
            yield record


def select(path: Path, lines: Iterator[int]) -> Iterator[Record]:
    """The rows of these lines (ascending, pulled one at a time); those between are passed over unparsed.

    ConfigError where the file cannot be read or has no such line."""
    return _select_parquet(path, lines) if _is_parquet(path) else _select_raw(path, lines)


def expand(patterns: Sequence[str | Path]) -> tuple[Path, ...]:
    """The files of the inputs in the order given; a glob's in sorted order. ConfigError where one names no file."""
    found: list[Path] = []
    for pattern in patterns:
        text = str(pattern)
        matches = [text]
        if glob.has_magic(text) and not Path(text).is_file():
            matches = sorted(glob.glob(text, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
        files = [Path(match) for match in matches if Path(match).is_file()]
        if not files:
            raise ConfigError(
                f"{text}: no such file", "name files of prompts: JSONL, JSON or Parquet, also .gz or .zst"
            )
        found += files
    return tuple(found)


@contextlib.contextmanager
def reading(path: Path) -> Generator[None]:
    """What goes wrong with this file inside, as ConfigError."""
    try:
        yield
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file", "check the path") from None
    except (OSError, ValueError, NotImplementedError) as error:
        # Arrow's errors are subclasses of these: not Parquet after all, a cut archive, an unknown encoding.
        raise ConfigError(f"{path}: cannot be read: {error}", "repair or rewrite the file") from None


def _is_parquet(path: Path) -> bool:
    with reading(path), path.open("rb") as file:
        return file.read(4) == b"PAR1"


def _raw_rows(path: Path) -> Iterator[bytes]:
    """Each row's bytes, undecoded."""
    with reading(path), _opened(path) as file:
        head = file.peek(4096).removeprefix(BOM)
        if head.startswith(UTF16):
            raise ConfigError(f"{path}: this is UTF-16", "convert it: iconv -f UTF-16 -t UTF-8")
        yield from _elements(path, file.read()) if _is_array(path, head) else file


@contextlib.contextmanager
def _opened(path: Path) -> Generator[io.BufferedReader]:
    with _buffered(path.open("rb", buffering=0)) as file:
        head = file.peek(4)
        kind = next((kind for magic, kind in MAGIC.items() if head.startswith(magic)), None)
        if kind is None:
            yield file
            return
        # Arrow's stream reads members one after another and, unlike others, never takes a cut archive for a whole one.
        arrow: Any = importlib.import_module("pyarrow")
        with _buffered(arrow.input_stream(file, compression=kind)) as unpacked:
            yield unpacked


def _buffered(raw: Any) -> io.BufferedReader:
    return io.BufferedReader(raw, BUFFER)


def _is_array(path: Path, head: bytes) -> bool:
    """A line that is a lone bracket opens an array under any name; else the name says whether rows are lines."""
    text = head.lstrip(PADDING)
    if not text.startswith(b"["):
        return False
    return text[1:2] in (b"\r", b"\n") or not any(suffix in LINE_SUFFIXES for suffix in path.suffixes)


def _elements(path: Path, data: bytes) -> Iterator[bytes]:
    try:
        rows = msgspec.json.decode(data.removeprefix(BOM).strip(PADDING), type=list[msgspec.Raw])
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path}: not a JSON array: {error}", "write one JSON object per line instead") from None
    return map(bytes, rows)


def _parse(line: int, raw: bytes) -> Record | None:
    """None for a blank line. Padding is looked for only where the straight way fails, since it hardly ever does."""
    try:
        return Record(line, msgspec.json.decode(raw))
    except (msgspec.DecodeError, RecursionError):
        text = (raw.removeprefix(BOM) if line == 1 else raw).strip(PADDING)
    if not text:
        return None
    try:
        return Record(line, msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError):
        return Record(line, error=_why(text))


def _why(text: bytes) -> str:
    """Why this is not one JSON value. The standard library's parser names the place and takes what ours refuses."""
    try:
        json.loads(text.decode())
    except UnicodeDecodeError as error:
        return f"not UTF-8: byte 0x{text[error.start]:02x} at column {error.start + 1}"
    except json.JSONDecodeError as error:
        return f"not JSON: {error.msg} at column {error.colno}"
    except (ValueError, RecursionError) as error:
        return f"not JSON that can be read: {error}"
    return "a lone surrogate, NaN or a number out of range: nothing that UTF-8 and JSON can carry"


def _select_raw(path: Path, lines: Iterator[int]) -> Iterator[Record]:
    rows, at = _raw_rows(path), 0
    for line in lines:
        raw = next(itertools.islice(rows, line - at - 1, None), None)
        if raw is None:
            raise _too_short(path, line)
        at = line
        yield _parse(line, raw) or Record(line, error="a blank line")


def _select_parquet(path: Path, lines: Iterator[int]) -> Iterator[Record]:
    batches = _batches(path)
    first, batch, rows = 1, None, 0
    for line in lines:
        while line >= first + rows:
            following = next(batches, None)
            if following is None:
                raise _too_short(path, line)
            first, batch = following
            rows = batch.num_rows
        assert batch is not None
        yield from _parse_batch(line, batch.slice(line - first, 1))


def _batches(path: Path) -> Iterator[tuple[int, Any]]:
    """(number of its first row, record batch). Arrow ships no types, hence Any."""
    parquet: Any = importlib.import_module("pyarrow.parquet")
    first = 1
    with reading(path), parquet.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER) as file:
        for batch in file.iter_batches(PARQUET_BATCH):
            yield first, batch
            first += batch.num_rows


def _parse_batch(first: int, batch: Any) -> Iterator[Record]:
    """A batch with text that is not UTF-8 is taken row by row, so that the others are not lost with it."""
    try:
        values: list[object] = batch.to_pylist()
    except UnicodeDecodeError as error:
        if batch.num_rows == 1:
            yield Record(first, error=f"not UTF-8: {error.reason}")
            return
        for at in range(batch.num_rows):
            yield from _parse_batch(first + at, batch.slice(at, 1))
        return
    for line, value in enumerate(values, first):
        yield Record(line, value)


def _too_short(path: Path, line: int) -> ConfigError:
    return ConfigError(f"{path}: ends before line {line}: it changed after it was read first", "start the run again")
