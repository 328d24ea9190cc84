import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sevenfold.errors import ConfigError, NodeError
from sevenfold.ledger import Reader, Standing, Tally, Writer, create
from tests.ledger.rows import failure, key_of, sample


def test_standing_of_every_kind_of_row(run: Path) -> None:
    with Writer(run) as writer:
        writer.commit(
            [
                sample(1),
                failure(2),
                failure(3, permanent=True),
                *(sample(4, turn=turn, turns=3) for turn in range(3)),
                *(sample(5, turn=turn, turns=3) for turn in range(2)),
                sample(6, turns=3),
                failure(6, turn=1, turns=3),
                failure(7, turn=0, turns=2, permanent=True),
                sample(8, sample=1),
            ]
        )
    assert Reader(run).standing([key_of(number) for number in range(10)]) == {
        (key_of(1), 0): Standing(1, finished=True, retryable=False),
        (key_of(2), 0): Standing(0, finished=True, retryable=True),
        (key_of(3), 0): Standing(0, finished=True, retryable=False),
        (key_of(4), 0): Standing(3, finished=True, retryable=False),
        (key_of(5), 0): Standing(2, finished=False, retryable=False),
        (key_of(6), 0): Standing(1, finished=True, retryable=True),
        (key_of(7), 0): Standing(0, finished=True, retryable=False),
        (key_of(8), 1): Standing(1, finished=True, retryable=False),
    }


def test_turns_that_came_out_of_order_stand_in_order(run: Path) -> None:
    with Writer(run) as writer:
        writer.commit([sample(1, turn=turn, turns=3) for turn in (2, 0)])
        reader = Reader(run)
        assert reader.standing([key_of(1)])[key_of(1), 0].turns_done == 1
        assert reader.conversation(key_of(1), 0) == [sample(1, turns=3)]
        writer.commit([sample(1, turn=1, turns=3)])
        assert reader.standing([key_of(1)])[key_of(1), 0] == Standing(3, finished=True, retryable=False)
        assert reader.conversation(key_of(1), 0) == [sample(1, turn=turn, turns=3) for turn in range(3)]


def test_a_conversation_ends_before_its_failure(run: Path) -> None:
    with Writer(run) as writer:
        writer.commit([sample(1, turns=2), failure(1, turn=1, turns=2), sample(1, sample=1, turns=2)])
    assert Reader(run).conversation(key_of(1), 0) == [sample(1, turns=2)]
    assert Reader(run).conversation(key_of(2), 0) == []


def test_outcomes_of_some_keys(run: Path) -> None:
    rows = [sample(number) for number in range(600)]
    with Writer(run) as writer:
        writer.commit(rows)
    reader = Reader(run)
    assert list(reader.outcomes([key_of(3), key_of(1), key_of(999)])) == [rows[1], rows[3]]
    assert list(reader.outcomes(key_of(number) for number in range(600))) == rows
    assert list(reader.outcomes([])) == []


def test_outcomes_beside_a_writer_come_once_each(run: Path) -> None:
    """A reader in the midst sees what is added behind its place; what is replaced there comes in its new form, once."""
    with Writer(run) as writer:
        writer.commit([failure(number) for number in range(300)])
        seen = Reader(run).outcomes()
        first = [next(seen) for _ in range(10)]
        writer.commit([sample(0), sample(299), sample(300)])
        rest = list(seen)
    assert [outcome.id for outcome in first + rest] == list(range(301))
    assert rest[-2:] == [sample(299), sample(300)]


def test_a_reader_that_stops_halfway_holds_nothing_up(run: Path) -> None:
    """The WAL is copied back whole while an iterator over the rows still waits."""
    with Writer(run) as writer:
        writer.commit([sample(number) for number in range(600)])
        waiting = Reader(run).outcomes()
        next(waiting)
        writer.commit([sample(600)])
        with closing(sqlite3.connect(run / "ledger" / "00.sqlite")) as db:
            busy, pages, copied = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert (busy, pages - copied) == (0, 0)
        assert len(list(waiting)) == 600


def test_tally(run: Path) -> None:
    assert Reader(run).tally() == Tally()
    with Writer(run) as writer:
        writer.commit(
            [
                sample(1),
                sample(2, flags=("truncated", "trivial"), replica="1"),
                sample(3, turns=2),
                failure(3, turn=1, turns=2),
                *(sample(4, turn=turn, turns=2, replica="1") for turn in range(2)),
                failure(5, kind="bad_request", permanent=True),
                failure(5, sample=1, kind="bad_request", permanent=True),
                sample(6, turns=2),
            ]
        )
    assert Reader(run).tally() == Tally(
        samples=6,
        failures=3,
        verdicts={"ok": 5, "truncated": 1},
        failure_kinds={"timeout": 1, "bad_request": 2},
        rows_done=3,
        rows_failed=3,
        prompt_tokens=60,
        completion_tokens=30,
        by_replica={"0": 3, "1": 3},
    )


def test_three_files_read_as_one(tmp_path: Path) -> None:
    create(tmp_path, files=3)
    rows = [sample(number) if number % 7 else failure(number) for number in range(60)]
    for file in range(3):
        with Writer(tmp_path, file) as writer:
            writer.commit(rows[file::3])
    reader = Reader(tmp_path)
    assert list(reader.outcomes()) == rows[0::3] + rows[1::3] + rows[2::3]
    keys = [key_of(number) for number in range(60)]
    assert {outcome.id for outcome in reader.outcomes(keys[:10])} == set(range(10))
    assert {key for key, _ in reader.standing(keys)} == set(keys)
    assert reader.conversation(keys[4], 0) == [rows[4]]
    tally = reader.tally()
    assert (tally.samples, tally.failures, tally.rows_done, tally.rows_failed) == (51, 9, 51, 9)
    assert (tally.verdicts, tally.by_replica, tally.completion_tokens) == ({"ok": 51}, {"0": 51}, 255)


def test_a_reader_writes_nothing(run: Path) -> None:
    with Reader(run) as reader, pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader._files[0].db.execute("DELETE FROM outcome")


def test_a_damaged_record_is_named(run: Path) -> None:
    with Writer(run) as writer:
        writer.commit([sample(1)])
    with closing(sqlite3.connect(run / "ledger" / "00.sqlite", isolation_level=None)) as db:
        db.execute("UPDATE record SET body = x'ff'")
    with pytest.raises(NodeError, match="record 1 is damaged"):
        list(Reader(run).outcomes())


def test_where_no_ledger_lies(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no ledger lies here"):
        Reader(tmp_path)


def test_settled_keys_are_those_with_all_samples_ended_for_good(run: Path) -> None:
    with Writer(run) as writer:
        writer.commit(
            [
                sample(1),
                sample(1, sample=1),
                sample(2),
                failure(3, permanent=True),
                sample(3, sample=1),
                failure(4),
                sample(4, sample=1),
                *(sample(5, turn=turn, turns=2, sample=index) for turn in range(2) for index in range(2)),
                sample(6, turns=2),
                sample(6, turns=2, sample=1),
                sample(9),
                sample(9, sample=1),
            ]
        )
    everything = (bytes(16), bytes.fromhex(key_of(8)))
    with Reader(run) as reader:
        assert reader.settled(*everything, 2) == {bytes.fromhex(key_of(number)) for number in (1, 3, 5)}
        assert reader.settled(*everything, 1) == {bytes.fromhex(key_of(number)) for number in (1, 2, 3, 5)}
