import resource
import stat
from pathlib import Path

import pytest

from sevenfold.errors import NodeError
from sevenfold.ledger import atomic_write


@pytest.mark.parametrize("durable", [True, False])
def test_the_new_content_takes_the_place_of_the_old(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "file"
    atomic_write(path, b"old", durable)
    atomic_write(path, b"new", durable)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_where_the_disk_refuses_the_old_content_stands(tmp_path: Path) -> None:
    path = tmp_path / "file"
    atomic_write(path, b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(NodeError, match="cannot be written") as caught:
            atomic_write(path, b"n" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(tmp_path) in caught.value.remedy
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="cannot be written"):
        atomic_write(tmp_path / "absent" / "file", b"")
