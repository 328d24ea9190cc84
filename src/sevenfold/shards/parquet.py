"""Rows as Parquet, streamed in row groups so that memory does not grow with the file.

Columns have one type each, so an `id` is written as text (the key tells 1 and "1" apart), and tools and tool calls,
whose arguments have no common type, are JSON text.
"""

import importlib
import io
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from sevenfold.types import JSON

ROW_GROUP = 512
"""Rows of a group, all in memory at once: 4 MB at 8 KB a row, and still large enough to read fast."""


def write_parquet(rows: Iterable[JSON], file: io.RawIOBase, form: str) -> None:
    arrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    schema = SCHEMAS[form](arrow)
    flat = (_flat(row) for row in rows)
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for group in _groups(flat):
            writer.write_table(arrow.Table.from_pylist(group, schema=schema))


def _messages_schema(arrow: Any) -> Any:
    text, whole = arrow.string(), arrow.int64()
    message = [(name, text) for name in ("role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name")]
    counts = ("prompt_tokens", "completion_tokens", "reasoning_tokens", "cached_tokens")
    return arrow.schema(
        [
            ("id", text),
            ("key", text),
            ("sample", whole),
            ("messages", arrow.list_(arrow.struct(message))),
            ("finish_reason", text),
            ("usage", arrow.struct([(name, whole) for name in counts])),
            ("model", text),
            ("verdict", text),
            ("thinking", arrow.bool_()),
            ("turns", whole),
            ("turns_asked", whole),
            ("tools", text),
        ]
    )


SCHEMAS = {"messages": _messages_schema}


def _flat(row: JSON) -> JSON:
    flat = dict(row)
    if row["id"] is not None:
        flat["id"] = str(row["id"])
    if "tools" in row:
        flat["tools"] = _as_text(row["tools"])
    flat["messages"] = [
        message | {"tool_calls": _as_text(message["tool_calls"])} if "tool_calls" in message else message
        for message in row["messages"]
    ]
    return flat


def _as_text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _groups(rows: Iterator[JSON]) -> Iterator[list[JSON]]:
    while group := list(itertools.islice(rows, ROW_GROUP)):
        yield group
