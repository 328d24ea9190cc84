"""What would be sent, without sending it: forms, accepted and refused rows, twins, ids used twice, lengths.

Memory grows with the refusals and with eight bytes per row for the lengths, not with the rows.
"""

import contextlib
import sqlite3
from array import array
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from sevenfold.sources.formats import Draft, Turns, drafted
from sevenfold.sources.index import Refusal
from sevenfold.sources.keys import content_key
from sevenfold.sources.messages import Refused
from sevenfold.sources.read import expand, records

SHOWN = 20
"""Refusals and ids in the text: with the rest of the report they fit on a screen. The JSON has them all."""
QUANTILES = (0, 1, 10, 50, 90, 99, 100)


class FileFacts(msgspec.Struct, frozen=True):
    path: str
    formats: dict[str, int]
    accepted: int
    refused: int


class SharedId(msgspec.Struct, frozen=True):
    """An id that several different prompts declare: they stay rows of their own."""

    id: str | int
    uses: int
    prompts: int


class Inspection(msgspec.Struct, frozen=True):
    files: tuple[FileFacts, ...]
    accepted: int
    refused: tuple[Refusal, ...]
    twins: int
    """Accepted rows that repeat an earlier one exactly."""
    asks: int
    """Completions that one sample of every row takes."""
    shared_ids: tuple[SharedId, ...]
    characters: dict[str, int]
    """Quantiles of the characters that a row's messages bring, p0 to p100; empty where no row was accepted."""


def inspect(inputs: Sequence[str | Path], turns: Turns = "last") -> Inspection:
    """ConfigError where an input names no file or cannot be read."""
    # An empty name is SQLite's own temporary database: in memory while small, else in a file nobody sees.
    with contextlib.closing(sqlite3.connect("")) as db:
        db.execute("CREATE TABLE seen(key BLOB PRIMARY KEY, id BLOB, uses INT) WITHOUT ROWID")
        seen = _Seen(db)
        files = tuple([_read(path, turns, seen) for path in expand(inputs)])
        ((twins,),) = db.execute("SELECT coalesce(sum(uses - 1), 0) FROM seen")
        shared = db.execute(
            "SELECT id, sum(uses), count(*) FROM seen WHERE id != ? GROUP BY id HAVING count(*) > 1 ORDER BY 2 DESC, 1",
            (msgspec.json.encode(None),),
        )
        return Inspection(
            files=files,
            accepted=sum(file.accepted for file in files),
            refused=tuple(seen.refusals),
            twins=twins,
            asks=seen.asks,
            shared_ids=tuple(SharedId(msgspec.json.decode(found), uses, count) for found, uses, count in shared),
            characters=_quantiles(seen.lengths),
        )


def summary(found: Inspection) -> str:
    """One screen of plain text."""
    lines = [f"{file.path}: {_formats(file)}" for file in found.files]
    lines.append(f"{found.accepted} rows accepted ({found.asks} completions per sample), {len(found.refused)} refused")
    if found.twins:
        lines.append(f"{found.twins} rows repeat an earlier row exactly; each is asked for itself")
    if found.characters:
        lines.append("characters per row: " + "  ".join(f"{name} {size}" for name, size in found.characters.items()))
    for shared in found.shared_ids[:SHOWN]:
        lines.append(f"id {shared.id!r}: {shared.uses} rows, {shared.prompts} different prompts")
    lines += _more(len(found.shared_ids), "ids")
    for refusal in found.refused[:SHOWN]:
        lines.append(f"refused {refusal.file}:{refusal.line}: {refusal.reason}")
    lines += _more(len(found.refused), "refused rows")
    return "\n".join(lines)


class _Seen:
    """What one look at the inputs gathers, over all files."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.refusals: list[Refusal] = []
        self.lengths = array("q")
        self.asks = 0

    def accept(self, draft: Draft) -> None:
        self.asks += len(draft.turns)
        self.lengths.append(sum(len(message.content or "") for turn in draft.turns for message in turn))
        self._db.execute(
            "INSERT INTO seen VALUES(?, ?, 1) ON CONFLICT DO UPDATE SET uses = uses + 1",
            (content_key(draft), msgspec.json.encode(draft.id)),
        )


def _read(path: Path, turns: Turns, seen: _Seen) -> FileFacts:
    formats: Counter[str] = Counter()
    before = len(seen.refusals)
    for record in records(path):
        draft = drafted(record, turns)
        if isinstance(draft, Refused):
            seen.refusals.append(Refusal(str(path), record.line, draft.reason))
        else:
            formats[draft.format] += 1
            seen.accept(draft)
    return FileFacts(str(path), dict(formats), formats.total(), len(seen.refusals) - before)


def _quantiles(lengths: Collection[int]) -> dict[str, int]:
    if not lengths:
        return {}
    ranked = sorted(lengths)
    return {f"p{share}": ranked[round(share / 100 * (len(ranked) - 1))] for share in QUANTILES}


def _formats(file: FileFacts) -> str:
    parts = [f"{count} {name}" for name, count in file.formats.items()]
    if file.refused:
        parts.append(f"{file.refused} refused")
    return ", ".join(parts) or "no rows"


def _more(count: int, what: str) -> list[str]:
    return [f"... and {count - SHOWN} more {what}; --json lists all"] if count > SHOWN else []
