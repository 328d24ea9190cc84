"""The ledger's files: RUN/ledger/layout.json and 00.sqlite, 01.sqlite, ... What is in them, how they are opened, and
whose fault it is when they fail.

A key belongs to one file by its hash, so several drivers may write one run, a file each; readers see the union.
"""

import contextlib
import sqlite3
from collections.abc import Generator, Sized
from pathlib import Path
from typing import Literal

import msgspec

from sevenfold.errors import ConfigError, NodeError
from sevenfold.ledger.atomic import atomic_write

FORMAT = 1
"""Of the files below. It grows when an older sevenfold would misread what this one writes."""

BUSY = 10.0
"""Seconds to wait for another program's hold on a file: a copy or a shell looks for a moment, a stuck one for ever."""

CHUNK = 4096
"""Keys per query: far below SQLite's limit of 32,766 values, and large enough to make the query's own cost vanish."""

SAMPLE, FAILURE, PERMANENT = 0, 1, 2
"""outcome.state. A FAILURE may be asked again and replaced; the others stand for ever."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT OR IGNORE INTO meta VALUES ('epoch', 0);

-- Each verdict, failure kind and replica once, so that outcome stays narrow and is counted by whole numbers.
CREATE TABLE IF NOT EXISTS word (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);

-- All that counting and resuming need; the row's whole content is in record.
CREATE TABLE IF NOT EXISTS outcome (
  key BLOB NOT NULL, sample INTEGER NOT NULL, turn INTEGER NOT NULL, turns INTEGER NOT NULL,
  state INTEGER NOT NULL,    -- 0 sample, 1 failure that may be asked again, 2 permanent failure
  verdict INTEGER NOT NULL,  -- word: the sample's verdict or the failure's kind
  replica INTEGER NOT NULL,  -- word
  prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL,
  record INTEGER NOT NULL,
  PRIMARY KEY (key, sample, turn)
) WITHOUT ROWID;

-- JSON, in the order of first commit.
CREATE TABLE IF NOT EXISTS record (id INTEGER PRIMARY KEY, body BLOB NOT NULL);
"""

WHY = {
    sqlite3.SQLITE_FULL: ("the disk is full", "free some space on it"),
    sqlite3.SQLITE_IOERR: ("the disk refuses to read or write", "check its free space, quota and health (dmesg)"),
    sqlite3.SQLITE_READONLY: (
        "it may not be written",
        "see that the run folder is yours and its disk is not read-only",
    ),
    sqlite3.SQLITE_PERM: ("it may not be written", "see that the run folder is yours"),
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "see that it is there and that the run folder is yours"),
    sqlite3.SQLITE_BUSY: ("another program holds it", "end that program; `fuser` on the file names it"),
    sqlite3.SQLITE_CORRUPT: ("it is damaged", "copy it away, then: sqlite3 FILE .recover"),
    sqlite3.SQLITE_NOTADB: ("it is damaged", "put back a copy, or start a new run"),
}
"""What SQLite's primary result codes mean for a user. Any other code is a fault of this program and stays as it is."""


class Layout(msgspec.Struct, frozen=True):
    format: int
    files: int


def create(run: Path, files: int = 1) -> None:
    """Makes an empty ledger; leaves one that is there alone. ConfigError where it has another number of files."""
    path = folder(run) / "layout.json"
    if path.exists():
        known = count(run)
        if known != files:
            raise ConfigError(f"{path}: this ledger has {known} files, not {files}", "start a new run with -o")
        return
    try:
        folder(run).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise NodeError(
            f"{folder(run)}: cannot be made: {error.strerror}", "see that the run folder is yours"
        ) from None
    for number in range(files):
        database = folder(run) / f"{number:02d}.sqlite"
        with faults(database), contextlib.closing(sqlite3.connect(database, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(SCHEMA)
    # Last, so that a ledger with a layout is a whole one.
    atomic_write(path, msgspec.json.encode(Layout(FORMAT, files)) + b"\n")


def folder(run: Path) -> Path:
    return run / "ledger"


def count(run: Path) -> int:
    """How many files the ledger has. ConfigError where there is none that this sevenfold can read."""
    path = folder(run) / "layout.json"
    try:
        layout = msgspec.json.decode(path.read_bytes(), type=Layout)
    except FileNotFoundError:
        raise ConfigError(f"{run}: no ledger lies here", "name a folder that a run made") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a ledger's layout: {error}", "name a folder that a run made") from None
    if layout.format > FORMAT or layout.files < 1:
        raise ConfigError(f"{path}: format {layout.format} is not known here", "pip install --upgrade sevenfold")
    return layout.files


def paths(run: Path) -> list[Path]:
    return [folder(run) / f"{number:02d}.sqlite" for number in range(count(run))]


def file_of(key: str, files: int) -> int:
    return int(key[:8], 16) % files


def marks(values: Sized) -> str:
    """Question marks for an IN clause."""
    return ",".join("?" * len(values))


def connect(path: Path, mode: Literal["ro", "rw"]) -> sqlite3.Connection:
    """Never makes a file. May be used from several threads, by one at a time."""
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY, check_same_thread=False)


@contextlib.contextmanager
def faults(path: Path) -> Generator[None]:
    """SQLite's errors that are the machine's fault, as NodeError."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        # The low byte is the primary code; the rest says where inside SQLite it came up.
        known = WHY.get(getattr(error, "sqlite_errorcode", -1) & 0xFF)
        if known is None:
            raise
        raise NodeError(f"{path}: {known[0]} ({error})", f"{known[1]}; then resume the run") from error
