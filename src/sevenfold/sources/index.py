"""The accepted rows of a run's inputs in order: key, place, number of turns. One SQLite file that may be lost.

Promises that memory does not grow with the inputs, that a reader in another thread or process sees what is committed
so far while `build` works, and that `complete` is true only of a whole pass. Knows nothing of what is done already.
"""

import contextlib
import hashlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from sevenfold.errors import NodeError
from sevenfold.sources.formats import Draft, Turns, drafted
from sevenfold.sources.keys import content_key, twin_key
from sevenfold.sources.messages import Refused
from sevenfold.sources.read import reading, records

VERSION = 1
"""Of the tables below and of everything that decides a key: another number builds the index anew."""
COMMIT_ROWS = 5000
"""Rows per transaction: the feed behind sees the first ones within a tenth of a second, and a commit costs nothing."""
CACHE_KIB = 65536
"""64 MiB: the tree of 900,000 random keys fits, so that inserting one never waits for the disk."""

_TABLES = {
    "state": "(turns TEXT, complete INT, rows INT, refused INT, twins INT, asks INT)",
    "file": "(number INTEGER PRIMARY KEY, path TEXT, size INT, mtime_ns INT, rows INT, sha256 TEXT)",
    "format": "(name TEXT PRIMARY KEY, rows INT) WITHOUT ROWID",
    "row": "(ordinal INTEGER PRIMARY KEY, key BLOB UNIQUE, turns INT, file INT, line INT, twin INT)",
    "twin": "(content BLOB PRIMARY KEY, count INT) WITHOUT ROWID",
    "refused": "(file INT, line INT, reason TEXT)",
}


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One accepted row. `file` is its place among the inputs, from 0; `twin` counts the exact twins before it."""

    ordinal: int
    key: str
    turns: int
    file: int
    line: int
    twin: int = 0


class Counts(msgspec.Struct, frozen=True):
    rows: int = 0
    refused: int = 0
    twins: int = 0
    """Accepted rows that repeat an earlier one exactly; they are among `rows`."""
    asks: int = 0
    """Completions that one sample of every row takes: the sum of turns."""
    formats: dict[str, int] = {}


class Refusal(msgspec.Struct, frozen=True):
    file: str
    line: int
    reason: str


class InputFile(msgspec.Struct, frozen=True):
    path: str
    size: int
    mtime_ns: int
    rows: int
    """Accepted ones."""
    sha256: str


class Index:
    """Every call opens the file for itself, so one Index serves any thread. NodeError where SQLite fails."""

    def __init__(self, path: Path, patience: float = 5.0) -> None:
        """`patience`: seconds to wait for another writer, who should not be there."""
        self._path, self._patience = path, patience

    def is_current(self, inputs: Sequence[Path], turns: Turns) -> bool:
        """Whether a whole pass over these inputs, unchanged by size and time, is recorded."""
        try:
            if not self.complete or self._query("SELECT turns FROM state") != [(turns,)]:
                return False
            return self._query("SELECT path, size, mtime_ns FROM file ORDER BY number") == list(map(_stat, inputs))
        except NodeError:
            return False

    def clear(self) -> None:
        """Empties the index: from here on nothing of an earlier pass is seen. `build` does it too."""
        with _named_errors(self._path):
            try:
                self._create()
            except sqlite3.OperationalError:
                raise  # locked, or no room: the file itself is sound
            except sqlite3.DatabaseError:
                for suffix in ("", "-wal", "-shm"):
                    self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
                self._create()

    def build(self, inputs: Sequence[Path], turns: Turns, tick: Callable[[int], None] = lambda rows: None) -> None:
        """One pass over the inputs. `tick` hears the accepted rows so far after every commit; raising there stops.

        ConfigError where an input cannot be read."""
        self.clear()
        with _named_errors(self._path), contextlib.closing(self._connect()) as db:
            with db:
                db.execute("UPDATE state SET turns = ?", (turns,))
                for number, path in enumerate(inputs):
                    db.execute("INSERT INTO file VALUES(?, ?, ?, ?, 0, '')", (number, *_stat(path)))
            build = _Pass(db, turns)
            for number, path in enumerate(inputs):
                for rows in build.read(number, path):
                    tick(rows)
            with db:
                db.execute("UPDATE state SET complete = 1")

    @property
    def complete(self) -> bool:
        return self._query("SELECT complete FROM state") == [(1,)]

    def counts(self) -> Counts:
        """So far, where a build is at work."""
        for found in self._query("SELECT rows, refused, twins, asks FROM state"):
            return Counts(*found, formats=dict(self._query("SELECT name, rows FROM format")))
        return Counts()

    def files(self) -> tuple[InputFile, ...]:
        return tuple(
            InputFile(*row)
            for row in self._query("SELECT path, size, mtime_ns, rows, sha256 FROM file ORDER BY number")
        )

    def chunk(self, after: int, size: int) -> list[Entry]:
        """The next rows behind this ordinal; ordinals count from 1."""
        found = self._query(
            "SELECT ordinal, key, turns, file, line, twin FROM row WHERE ordinal > ? ORDER BY ordinal LIMIT ?",
            (after, size),
        )
        return [_entry(*row) for row in found]

    def keys(self, after: bytes, size: int) -> list[tuple[bytes, int]]:
        """The next (raw key, ordinal) in the order of the keys."""
        return self._query("SELECT key, ordinal FROM row WHERE key > ? ORDER BY key LIMIT ?", (after, size))

    def entries(self, ordinals: Sequence[int]) -> list[Entry]:
        """Of some thousand ordinals at most, ascending."""
        marks = ",".join("?" * len(ordinals))
        found = self._query(
            f"SELECT ordinal, key, turns, file, line, twin FROM row WHERE ordinal IN ({marks}) ORDER BY ordinal",
            ordinals,
        )
        return [_entry(*row) for row in found]

    def refusals(self) -> Iterator[Refusal]:
        after = 0
        sql = (
            "SELECT refused.rowid, path, line, reason FROM refused JOIN file ON number = file "
            "WHERE refused.rowid > ? ORDER BY refused.rowid LIMIT 1000"
        )
        while found := self._query(sql, (after,)):
            for after, path, line, reason in found:  # noqa: B007 - the last one is where the next page begins
                yield Refusal(path, line, reason)

    def _query(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Nothing where there are no tables of ours yet."""
        if not self._path.exists():
            return []
        uri = f"file:{quote(str(self._path))}?mode=ro"
        with _named_errors(self._path), contextlib.closing(sqlite3.connect(uri, uri=True)) as db:
            if db.execute("PRAGMA user_version").fetchone() != (VERSION,):
                return []
            return db.execute(sql, values).fetchall()

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, timeout=self._patience)
        for pragma in ("journal_mode=WAL", "synchronous=OFF", f"cache_size=-{CACHE_KIB}"):
            db.execute(f"PRAGMA {pragma}")
        return db

    def _create(self) -> None:
        with contextlib.closing(self._connect()) as db:
            made = "".join(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name}{what};" for name, what in _TABLES.items())
            db.executescript(
                f"BEGIN IMMEDIATE; {made} INSERT INTO state VALUES('', 0, 0, 0, 0, 0);"
                f"PRAGMA user_version = {VERSION}; COMMIT;"
            )


class _Pass:
    """One pass that fills the tables, and what it has counted so far."""

    def __init__(self, db: sqlite3.Connection, turns: Turns) -> None:
        self._db = db
        self._turns: Turns = turns
        self._rows = self._refused = self._twins = self._asks = 0
        self._formats: Counter[str] = Counter()

    def read(self, number: int, path: Path) -> Iterator[int]:
        """Yields the rows accepted so far, of all files, after every commit."""
        before = self._rows
        for place, record in enumerate(records(path), 1):
            draft = drafted(record, self._turns)
            if isinstance(draft, Refused):
                self._refused += 1
                self._db.execute("INSERT INTO refused VALUES(?, ?, ?)", (number, record.line, draft.reason))
            else:
                self._accept(number, record.line, draft)
            if place % COMMIT_ROWS == 0:
                yield self._commit()
        with reading(path), path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        self._db.execute("UPDATE file SET rows = ?, sha256 = ? WHERE number = ?", (self._rows - before, digest, number))
        yield self._commit()

    def _accept(self, number: int, line: int, draft: Draft) -> None:
        content = content_key(draft)
        self._rows += 1
        self._asks += len(draft.turns)
        self._formats[draft.format] += 1
        if not self._is_new(content, draft, number, line, 0):
            self._twins += 1
            ((count,),) = self._db.execute(
                "INSERT INTO twin VALUES(?, 1) ON CONFLICT DO UPDATE SET count = count + 1 RETURNING count", (content,)
            )
            self._is_new(twin_key(content, count), draft, number, line, count)

    def _is_new(self, key: bytes, draft: Draft, number: int, line: int, twin: int) -> bool:
        """Inserts the row unless its key is there already."""
        values = (key, len(draft.turns), number, line, twin)
        sql = "INSERT OR IGNORE INTO row(key, turns, file, line, twin) VALUES(?, ?, ?, ?, ?)"
        return self._db.execute(sql, values).rowcount == 1

    def _commit(self) -> int:
        counts = (self._rows, self._refused, self._twins, self._asks)
        self._db.execute("UPDATE state SET rows = ?, refused = ?, twins = ?, asks = ?", counts)
        self._db.executemany("INSERT OR REPLACE INTO format VALUES(?, ?)", self._formats.items())
        self._db.commit()
        return self._rows


def _entry(ordinal: int, key: bytes, turns: int, file: int, line: int, twin: int) -> Entry:
    return Entry(ordinal, key.hex(), turns, file, line, twin)


def _stat(path: Path) -> tuple[str, int, int]:
    with reading(path):
        found = path.stat()
    return str(path), found.st_size, found.st_mtime_ns


@contextlib.contextmanager
def _named_errors(path: Path) -> Generator[None]:
    try:
        yield
    except sqlite3.Error as error:
        remedy = "make room on the disk; the index may be deleted, it is made again from the inputs"
        raise NodeError(f"{path}: {error}", remedy) from None
