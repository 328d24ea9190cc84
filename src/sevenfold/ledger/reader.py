"""What the ledger says, read beside a writer or after it, in this process or another.

Each look is short: it takes in what was committed when it began, and holds no snapshot afterwards, so the writer's WAL
never grows because of a slow reader.
"""

import contextlib
import itertools
import sqlite3
import threading
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from sevenfold.errors import NodeError
from sevenfold.ledger import files
from sevenfold.types import Outcome, Sample

BODIES = 256
"""Records held at once: some megabytes with replies of 8 KB."""


class Standing(msgspec.Struct, frozen=True):
    """How far one sample of one prompt has come."""

    turns_done: int
    """Turns answered from the first on, without a gap."""
    finished: bool
    """Its last turn is answered, or a turn failed."""
    retryable: bool
    """It ended with a Failure that is not permanent: turn `turns_done` may be asked again."""


NOTHING = Standing(0, finished=False, retryable=False)
SINGLE = {
    files.SAMPLE: Standing(1, finished=True, retryable=False),
    files.FAILURE: Standing(0, finished=True, retryable=True),
    files.PERMANENT: Standing(0, finished=True, retryable=False),
}
"""Where conversations of one turn stand, by state: nearly all rows of most runs, made once."""


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Counts over the whole ledger. A row is one sample of one prompt, with all its turns."""

    samples: int = 0
    failures: int = 0
    verdicts: dict[str, int] = {}
    """Samples (turns) per verdict."""
    failure_kinds: dict[str, int] = {}
    rows_done: int = 0
    """Rows whose last turn is a Sample."""
    rows_failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    by_replica: dict[str, int] = {}
    """Samples per replica."""


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    db: sqlite3.Connection


class Reader:
    """May be shared by threads. Closed with `close`, by `with`, or when it is forgotten."""

    def __init__(self, run: Path) -> None:
        """ConfigError where there is no ledger, NodeError where it cannot be opened."""
        self._lock = threading.Lock()
        with contextlib.ExitStack() as stack:
            self._files: list[_File] = []
            for path in files.paths(run):
                with files.faults(path):
                    self._files.append(_File(path, stack.enter_context(contextlib.closing(files.connect(path, "ro")))))
            self.close = weakref.finalize(self, stack.pop_all().close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def standing(self, keys: Sequence[str]) -> dict[tuple[str, int], Standing]:
        """Of each (key, sample) that the ledger knows anything of; the others are absent."""
        found: dict[tuple[str, int], Standing] = {}
        for file, part in self._split(keys, files.CHUNK):
            names = dict(zip(map(bytes.fromhex, part), part, strict=True))
            query = f"""SELECT key, sample, turn, turns, state FROM outcome
                WHERE key IN ({files.marks(part)}) ORDER BY key, sample, turn"""
            for key, sample, turn, turns, state in self._look(file, query, list(names)):
                row = names[key], sample
                found[row] = SINGLE[state] if turns == 1 else _further(found.get(row, NOTHING), turn, turns, state)
        return found

    def settled(self, after: bytes, upto: bytes, samples: int) -> set[bytes]:
        """Raw keys in (after, upto] of which nothing is to be asked any more: as many samples as these have their last
        turn or a permanent failure. In key order this passes 900,000 rows in a second, which `standing` cannot."""
        query = """SELECT key FROM outcome WHERE key > ? AND key <= ? AND sample < ?
            AND (state = ? AND turn + 1 = turns OR state = ?)"""
        values: list[object] = [after, upto, samples, files.SAMPLE, files.PERMANENT]
        if samples > 1:  # else a key comes once, and grouping would cost a fifth of the time
            query += " GROUP BY key HAVING count(*) = ?"
            values.append(samples)
        return {key for file in self._files for (key,) in self._look(file, query, values)}

    def conversation(self, key: str, sample: int) -> list[Sample]:
        """The turns answered so far, from the first on."""
        file = self._files[files.file_of(key, len(self._files))]
        query = """SELECT id, body FROM outcome JOIN record ON id = record
            WHERE key = ? AND sample = ? AND state = ? ORDER BY turn"""
        found = self._look(file, query, (bytes.fromhex(key), sample, files.SAMPLE))
        outcomes = (_decode(file, *row) for row in found)
        return [o for turn, o in enumerate(outcomes) if isinstance(o, Sample) and o.turn == turn]

    def outcomes(self, keys: Iterable[str] | None = None) -> Iterator[Outcome]:
        """Of all keys or of these, file after file, in the order of their first commit, of `keys` some hundred at a
        time. An outcome that replaces a Failure while this reads takes its place: each row comes once."""
        if keys is None:
            for file in self._files:
                yield from self._all(file)
            return
        for file, part in self._split(keys, BODIES):
            query = f"""SELECT id, body FROM record
                WHERE id IN (SELECT record FROM outcome WHERE key IN ({files.marks(part)})) ORDER BY id"""
            for row in self._look(file, query, [bytes.fromhex(key) for key in part]):
                yield _decode(file, *row)

    def tally(self) -> Tally:
        """Counted anew from the narrow table, never from a record's content."""
        verdicts: Counter[str] = Counter()
        kinds: Counter[str] = Counter()
        replicas: Counter[str] = Counter()
        done = failed = prompt_tokens = completion_tokens = 0
        for file in self._files:
            # One packed number sorts twice as fast as three columns.
            query = """SELECT state, verdict, replica, count(*), sum(turn + 1 = turns), sum(prompt_tokens),
                sum(completion_tokens) FROM outcome GROUP BY state + 4 * verdict + (replica << 32)"""
            groups = self._look(file, query)
            # After the groups: a writer may have added a word with its first outcome in between.
            words = dict(self._look(file, "SELECT id, text FROM word"))
            for state, verdict, replica, rows, last, prompts, completions in groups:
                if state != files.SAMPLE:
                    kinds[words[verdict]] += rows
                    continue
                verdicts[words[verdict]] += rows
                replicas[words[replica]] += rows
                done += last
                prompt_tokens += prompts
                completion_tokens += completions
            query = "SELECT count(*) FROM (SELECT DISTINCT key, sample FROM outcome WHERE state != ?)"
            failed += self._look(file, query, (files.SAMPLE,))[0][0]
        return Tally(
            samples=verdicts.total(),
            failures=kinds.total(),
            verdicts=dict(verdicts),
            failure_kinds=dict(kinds),
            rows_done=done,
            rows_failed=failed,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            by_replica=dict(replicas),
        )

    def _all(self, file: _File) -> Iterator[Outcome]:
        query, after = "SELECT id, body FROM record WHERE id > ? ORDER BY id LIMIT ?", 0
        while found := self._look(file, query, (after, BODIES)):
            after = found[-1][0]
            for row in found:
                yield _decode(file, *row)

    def _split(self, keys: Iterable[str], size: int) -> Iterator[tuple[_File, list[str]]]:
        """At most `size` keys at a time, with the file they belong to."""
        source = iter(keys)
        while chunk := list(itertools.islice(source, size)):
            if len(self._files) == 1:
                yield self._files[0], chunk
                continue
            parts: dict[int, list[str]] = {}
            for key in chunk:
                parts.setdefault(files.file_of(key, len(self._files)), []).append(key)
            for number, part in parts.items():
                yield self._files[number], part

    def _look(self, file: _File, query: str, values: Sequence[object] = ()) -> list[Any]:
        with self._lock, files.faults(file.path):
            return file.db.execute(query, values).fetchall()


def _further(before: Standing, turn: int, turns: int, state: int) -> Standing:
    """Where a conversation stands, given its next outcome in turn order."""
    if state != files.SAMPLE:
        return Standing(before.turns_done, finished=True, retryable=state == files.FAILURE)
    done = before.turns_done + (turn == before.turns_done)
    return Standing(done, before.finished or done == turns, before.retryable)


def _decode(file: _File, record: int, body: bytes) -> Outcome:
    try:
        return _outcome(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NodeError(f"{file.path}: record {record} is damaged: {error}", "put back a copy of the run") from None


_outcome = msgspec.json.Decoder(Outcome).decode
