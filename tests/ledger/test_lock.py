import subprocess
import sys
from pathlib import Path

import pytest

from sevenfold.errors import LockedError, NodeError
from sevenfold.ledger.lock import held

HOLD = """
import sys, pathlib
from sevenfold.ledger.lock import held
with held(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_it_names_the_process_that_has_it_and_is_free_when_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    argv = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(LockedError, match=f"process {child.pid} on ") as caught, held(path):
            pass
        assert caught.value.remedy.endswith(f"kill {child.pid}")
        child.kill()
        child.wait()
    with held(path):
        pass


def test_a_holder_that_has_not_said_who_it_is(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with held(path):
        path.write_bytes(b"")
        with pytest.raises(LockedError, match="just begun"), held(path):
            pass


def test_a_replica_started_by_the_holder_does_not_keep_it(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", "print('started', flush=True); input()"]
    with held(tmp_path / "lock"):
        child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False)
        assert child.stdout is not None
        assert child.stdout.readline() == b"started\n"
    try:
        with held(tmp_path / "lock"):
            pass
    finally:
        child.communicate(b"\n")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="cannot be locked"), held(tmp_path / "absent" / "lock"):
        pass


def test_an_error_inside_stays_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(BlockingIOError), held(tmp_path / "lock"):
        raise BlockingIOError
