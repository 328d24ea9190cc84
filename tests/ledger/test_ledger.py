import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from sevenfold.errors import ConfigError, LockedError, NodeError
from sevenfold.ledger import Reader, Writer, create
from sevenfold.types import Outcome
from tests.ledger.rows import failure, sample

HERE = Path(__file__).parent


def test_a_commit_is_there_when_it_returns(run: Path) -> None:
    rows = [sample(1), failure(2), sample(3, flags=("truncated", "trivial"))]
    with Writer(run) as writer, Reader(run) as reader:
        assert writer.commit(rows) == [True, True, True]
        assert list(reader.outcomes()) == rows
    assert list(Reader(run).outcomes()) == rows


@pytest.mark.parametrize("again", [[sample(1), failure(2)], [sample(1), sample(1), failure(2), failure(2)]])
def test_the_same_batch_twice_is_one(run: Path, again: list[Outcome]) -> None:
    with Writer(run) as writer:
        writer.commit([sample(1), failure(2)])
        assert writer.commit(again) == [False] * len(again)
    with Writer(run) as writer:
        assert writer.commit(again) == [False] * len(again)
    assert list(Reader(run).outcomes()) == [sample(1), failure(2)]


@pytest.mark.parametrize(
    ("first", "second", "replaced"),
    [
        (sample(1), sample(1, answer="other"), False),
        (sample(1), failure(1), False),
        (sample(1), failure(1, permanent=True), False),
        (failure(1, permanent=True), sample(1), False),
        (failure(1, permanent=True), failure(1), False),
        (failure(1), sample(1), True),
        (failure(1), failure(1, kind="malformed"), True),
        (failure(1), failure(1, permanent=True), True),
    ],
)
@pytest.mark.parametrize("at_once", [False, True])
def test_what_gives_way_to_what(run: Path, first: Outcome, second: Outcome, replaced: bool, at_once: bool) -> None:
    with Writer(run) as writer:
        if at_once:
            assert writer.commit([first, second, sample(9)]) == [True, replaced, True]
        else:
            assert writer.commit([first, sample(9)]) == [True, True]
            assert writer.commit([second]) == [replaced]
    assert list(Reader(run).outcomes()) == [second if replaced else first, sample(9)]
    assert sum(len(rows) for rows in tables(run)) == 4


def test_rows_differ_by_key_sample_and_turn(run: Path) -> None:
    rows = [sample(k, turn=t, turns=2, sample=s) for k in range(2) for s in range(2) for t in range(2)]
    with Writer(run) as writer:
        assert writer.commit(rows) == [True] * 8


def test_an_empty_batch_is_nothing(run: Path) -> None:
    with Writer(run) as writer:
        assert writer.commit([]) == []


def test_a_batch_larger_than_a_query(run: Path) -> None:
    rows = [sample(number) for number in range(5000)]
    with Writer(run) as writer:
        assert all(writer.commit(rows))
        assert not any(writer.commit(rows))


def test_a_key_of_another_file_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    create(tmp_path, files=3)
    with Writer(tmp_path, file=1) as writer:
        with pytest.raises(ValueError, match="does not belong"):
            writer.commit([sample(1), sample(2)])
        assert writer.commit([sample(1), sample(4)]) == [True, True]
    assert Reader(tmp_path).tally().samples == 2


def test_a_second_writer_is_refused_by_name_until_the_first_ends(run: Path) -> None:
    first = Writer(run)
    with pytest.raises(LockedError, match=f"process {os.getpid()} on "):
        Writer(run)
    assert first.commit([sample(1)]) == [True]
    first.close()
    with Writer(run) as second:
        assert second.commit([sample(2)]) == [True]


def test_writers_of_two_files_work_side_by_side(tmp_path: Path) -> None:
    create(tmp_path, files=2)
    with Writer(tmp_path, 0) as even, Writer(tmp_path, 1) as odd:
        assert even.commit([sample(0)]) == odd.commit([sample(1)]) == [True]
    assert Reader(tmp_path).tally().samples == 2


def test_a_writer_whose_place_was_taken_writes_nothing_more(run: Path) -> None:
    """As where a file system loses locks: the lock file of a living writer is gone, and another begins."""
    zombie = Writer(run)
    zombie.commit([sample(1)])
    (run / "ledger" / "00.lock").unlink()
    with Writer(run) as heir:
        with pytest.raises(LockedError, match="another driver took over"):
            zombie.commit([sample(2)])
        assert heir.commit([sample(3)]) == [True]
    zombie.close()
    assert list(Reader(run).outcomes()) == [sample(1), sample(3)]


def test_close_waits_for_a_commit_in_another_thread(run: Path) -> None:
    writer, inside = Writer(run), threading.Event()

    class Batch(list[Outcome]):
        def __iter__(self) -> Iterator[Outcome]:
            if writer._one_at_a_time.locked():
                inside.set()
            return super().__iter__()

    with ThreadPoolExecutor() as threads:
        kept = threads.submit(writer.commit, Batch(sample(number) for number in range(3000)))
        assert inside.wait(timeout=30)
        writer.close()
    assert kept.result() == [True] * 3000
    assert Reader(run).tally().samples == 3000


def test_a_full_disk_acknowledges_nothing_and_the_batch_may_come_again(run: Path) -> None:
    with Writer(run) as writer:
        writer.commit([sample(1)])
        batch = [sample(number, answer="x" * 9000) for number in range(2, 200)]
        wal = run / "ledger" / "00.sqlite-wal"
        with no_file_larger_than(wal.stat().st_size + 100_000), pytest.raises(NodeError, match=r"00\.sqlite") as caught:
            writer.commit(batch)
        assert "free space" in caught.value.remedy
        assert list(Reader(run).outcomes()) == [sample(1)]
        assert all(writer.commit(batch))
    assert Reader(run).tally().samples == 199


def test_a_missing_file_is_the_machines_fault(run: Path) -> None:
    (run / "ledger" / "00.sqlite").unlink()
    with pytest.raises(NodeError, match="cannot be opened"):
        Writer(run)
    with pytest.raises(NodeError, match="cannot be opened"):
        Reader(run)
    assert sorted(path.name for path in (run / "ledger").iterdir()) == ["00.lock", "layout.json"]


def test_a_damaged_file_is_the_machines_fault(run: Path) -> None:
    (run / "ledger" / "00.sqlite").write_bytes(b"no database at all" * 500)
    with pytest.raises(NodeError, match="damaged"):
        Writer(run)
    create(run)


def test_where_no_ledger_lies(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no ledger lies here"):
        Writer(tmp_path)


def test_what_was_acknowledged_survives_kill_9(run: Path) -> None:
    """A child commits without end and tells each batch after its commit returned; it is killed in the midst, thrice."""
    told = 0
    for batches in (3, 17, 40):
        child = subprocess.Popen(
            [sys.executable, str(HERE / "committer.py"), str(run), str(told)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        with child.stdout:
            for _ in range(batches):
                told = int(child.stdout.readline())
            child.send_signal(signal.SIGKILL)
            rest = child.stdout.read().split("\n")
        assert child.wait() == -signal.SIGKILL
        told = max([told, *(int(line) for line in rest[:-1])])
        reader = Reader(run)
        kept = [outcome.id for outcome in reader.outcomes()]
        assert kept[:told] == list(range(told))
        assert len(kept) == len(set(kept)) == reader.tally().samples


def test_a_copy_taken_between_commits_is_a_whole_ledger(run: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Everything that counts lies in the run folder: file and WAL together, whether or not the writer lives."""
    copy = tmp_path_factory.mktemp("copy") / "run"
    with Writer(run) as writer:
        writer.commit([sample(1)])
        shutil.copytree(run, copy)
    with Writer(copy) as writer:
        assert writer.commit([sample(1), sample(2)]) == [False, True]


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def tables(run: Path) -> tuple[list[object], list[object]]:
    with closing(sqlite3.connect(run / "ledger" / "00.sqlite")) as db:
        return db.execute("SELECT record FROM outcome").fetchall(), db.execute("SELECT id FROM record").fetchall()
