import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sevenfold.errors import ConfigError, NodeError
from sevenfold.ledger import Reader, Writer, create, files
from tests.ledger.rows import sample


def test_create_again_leaves_a_ledger_alone(run: Path) -> None:
    with Writer(run) as writer:
        writer.commit([sample(1)])
        create(run)
    create(run)
    assert Reader(run).tally().samples == 1


def test_create_ends_what_a_crash_left_half_made(tmp_path: Path) -> None:
    create(tmp_path, files=2)
    (tmp_path / "ledger" / "layout.json").unlink()
    (tmp_path / "ledger" / "01.sqlite").unlink()
    create(tmp_path, files=2)
    assert Reader(tmp_path).tally().samples == 0


def test_another_number_of_files_is_refused(run: Path) -> None:
    with pytest.raises(ConfigError, match="has 1 files, not 3"):
        create(run, files=3)


@pytest.mark.parametrize("layout", [b"", b"[]", b'{"format": 1, "files": 0}', b'{"format": 99, "files": 1}', b"\xff"])
def test_a_layout_that_cannot_be_read(run: Path, layout: bytes) -> None:
    (run / "ledger" / "layout.json").write_bytes(layout)
    with pytest.raises(ConfigError, match=r"layout\.json"):
        Reader(run)


def test_no_folder_to_make_it_in(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="cannot be made"):
        create(tmp_path / "absent")


def test_the_run_folder_may_have_any_name(tmp_path: Path) -> None:
    run = tmp_path / "what? 100% #1"
    run.mkdir()
    create(run)
    with Writer(run) as writer:
        writer.commit([sample(1)])
    assert Reader(run).tally().samples == 1


def test_a_full_disk_is_the_machines_fault(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "small", isolation_level=None)) as db:
        db.execute("CREATE TABLE t (b BLOB)")
        db.execute("PRAGMA max_page_count = 4")
        with pytest.raises(NodeError, match="small: the disk is full") as caught, files.faults(tmp_path / "small"):
            db.execute("INSERT INTO t VALUES (zeroblob(100000))")
    assert caught.value.remedy == "free some space on it; then resume the run"


def test_our_own_mistakes_keep_their_class(tmp_path: Path) -> None:
    with (
        closing(sqlite3.connect(":memory:")) as db,
        pytest.raises(sqlite3.OperationalError),
        files.faults(tmp_path),
    ):
        db.execute("SELECT nothing FROM nowhere")


def test_every_key_belongs_to_one_file() -> None:
    assert [files.file_of(f"{number:08x}" + "f" * 24, 3) for number in range(6)] == [0, 1, 2, 0, 1, 2]
    assert files.file_of("ffffffff" + "0" * 24, 1) == 0


def test_a_layout_that_is_no_file(run: Path) -> None:
    (run / "ledger" / "layout.json").unlink()
    (run / "ledger" / "layout.json").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        Reader(run)
