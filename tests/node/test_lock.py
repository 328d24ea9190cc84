import subprocess
import sys
from pathlib import Path

import pytest

from sevenfold.errors import NodeError
from sevenfold.node.lock import alone

HOLDS = """
import sys
from pathlib import Path
from sevenfold.node.lock import alone
with alone(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_next_one_waits_until_the_holder_ends(tmp_path: Path) -> None:
    lock = tmp_path / "folder" / "x.lock"
    argv = [sys.executable, "-c", HOLDS, str(lock)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout
        assert first.stdout.readline() == b"held\n"
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as second:
            first.kill()
            assert second.stdout
            assert second.stdout.readline() == b"held\n"
            second.kill()
    with alone(lock):
        assert lock.exists()


def test_a_lock_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "x.lock").mkdir()
    with pytest.raises(NodeError, match="cannot be locked"), alone(tmp_path / "x.lock"):
        pass
