"""The writer of one ledger file.

It promises that `commit` is one transaction, on disk when it returns; that each (key, sample, turn) has one outcome;
that a Sample is never replaced; that a writer whose place another took writes nothing more.

SQLite in WAL mode with synchronous=FULL carries the durability; nothing here would know how to repair a file.
"""

import contextlib
import threading
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from sevenfold.errors import LockedError
from sevenfold.ledger import files
from sevenfold.ledger.lock import held
from sevenfold.types import Failure, Outcome, Sample

CHECKPOINT = 4096
"""Pages in the WAL (16 MB) before they are copied into the file: some eight batches share one copy of the pages that
they all touch, and a reader's first look after a crash stays short."""

Place = tuple[bytes, int, int]
"""(key, sample, turn) as the outcome table has it."""

_encode = msgspec.json.Encoder().encode


class Writer:
    def __init__(self, run: Path, file: int = 0) -> None:
        """LockedError where another driver writes this file. ConfigError or NodeError where it cannot be written."""
        paths = files.paths(run)
        self._path, self._file, self._files = paths[file], file, len(paths)
        self._one_at_a_time = threading.Lock()  # `close` waits for a commit that its caller no longer waits for
        with contextlib.ExitStack() as stack:
            stack.enter_context(held(self._path.with_suffix(".lock")))
            with files.faults(self._path):
                self._db = stack.enter_context(contextlib.closing(files.connect(self._path, "rw")))
                self._db.execute("PRAGMA synchronous=FULL")
                self._db.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT}")
                raised = "UPDATE meta SET value = value + 1 WHERE name = 'epoch' RETURNING value"
                self._epoch: int = self._db.execute(raised).fetchall()[0][0]
            self._open = stack.pop_all()

    def commit(self, outcomes: Sequence[Outcome]) -> list[bool]:
        """Per outcome, whether the ledger now has it and had not before. All of them are on disk when this returns.

        A Failure that is not permanent gives way to a Sample or to another Failure; nothing else ever gives way.
        ValueError on a key of another file; LockedError where another writer took over; NodeError where the disk
        fails: then nothing of the batch is done, and the same batch may be tried again."""
        for outcome in outcomes:
            if files.file_of(outcome.key, self._files) != self._file:
                raise ValueError(f"key {outcome.key} does not belong to {self._path}")
        with self._one_at_a_time, files.faults(self._path), self._transaction():
            return self._write(outcomes)

    def close(self) -> None:
        with self._one_at_a_time:
            self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextlib.contextmanager
    def _transaction(self) -> Generator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            (epoch,) = self._db.execute("SELECT value FROM meta WHERE name = 'epoch'").fetchone()
            if epoch != self._epoch:
                raise LockedError(
                    f"{self._path}: another driver took over (epoch {epoch}, ours was {self._epoch})",
                    "end this one; the other goes on with the run",
                )
            yield
            self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:  # SQLite itself may have rolled back already
                self._db.execute("ROLLBACK")

    def _write(self, outcomes: Sequence[Outcome]) -> list[bool]:
        standing = self._standing(outcomes)
        (last,) = self._db.execute("SELECT coalesce(max(id), 0) FROM record").fetchone()
        bodies: dict[int, bytes] = {}
        winners: dict[Place, tuple[Outcome, int]] = {}
        new: list[bool] = []
        for outcome in outcomes:
            place, body = _place(outcome), _encode(outcome)
            state, record = standing.get(place, (None, last + 1))
            if state is None:
                last = record
            elif state != files.FAILURE or body == (bodies.get(record) or self._body(record)):
                new.append(False)
                continue
            standing[place] = _state(outcome), record
            bodies[record], winners[place] = body, (outcome, record)
            new.append(True)
        self._store(bodies, winners)
        return new

    def _store(self, bodies: dict[int, bytes], winners: dict[Place, tuple[Outcome, int]]) -> None:
        words = self._words({word for outcome, _ in winners.values() for word in (_verdict(outcome), outcome.replica)})
        rows = (
            (
                *place,
                outcome.turns,
                _state(outcome),
                words[_verdict(outcome)],
                words[outcome.replica],
                *_tokens(outcome),
                record,
            )
            for place, (outcome, record) in winners.items()
        )
        self._db.executemany("INSERT OR REPLACE INTO record VALUES (?, ?)", bodies.items())
        self._db.executemany("INSERT OR REPLACE INTO outcome VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def _standing(self, outcomes: Sequence[Outcome]) -> dict[Place, tuple[int, int]]:
        """(state, record) of what the ledger has for these keys."""
        keys = list({bytes.fromhex(outcome.key) for outcome in outcomes})
        found: dict[Place, tuple[int, int]] = {}
        for at in range(0, len(keys), files.CHUNK):
            chunk = keys[at : at + files.CHUNK]
            query = f"SELECT key, sample, turn, state, record FROM outcome WHERE key IN ({files.marks(chunk)})"
            found |= {
                (key, sample, turn): (state, record)
                for key, sample, turn, state, record in self._db.execute(query, chunk)
            }
        return found

    def _body(self, record: int) -> bytes:
        return self._db.execute("SELECT body FROM record WHERE id = ?", (record,)).fetchone()[0]

    def _words(self, texts: Iterable[str]) -> dict[str, int]:
        """Read anew each time: a cache would have to forget what a failed commit rolled back."""
        query = "SELECT text, id FROM word"
        known: dict[str, int] = dict(self._db.execute(query))
        missing = sorted(set(texts) - known.keys())
        if missing:
            self._db.executemany("INSERT INTO word (text) VALUES (?)", ((text,) for text in missing))
            known = dict(self._db.execute(query))
        return known


def _place(outcome: Outcome) -> Place:
    return bytes.fromhex(outcome.key), outcome.sample, outcome.turn


def _state(outcome: Outcome) -> int:
    if isinstance(outcome, Sample):
        return files.SAMPLE
    return files.PERMANENT if outcome.permanent else files.FAILURE


def _verdict(outcome: Outcome) -> str:
    return outcome.kind if isinstance(outcome, Failure) else outcome.verdict


def _tokens(outcome: Outcome) -> tuple[int, int]:
    if isinstance(outcome, Failure):
        return 0, 0
    usage = outcome.completion.usage
    return usage.prompt_tokens, usage.completion_tokens
