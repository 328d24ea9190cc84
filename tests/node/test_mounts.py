from pathlib import Path

import pytest

from sevenfold.errors import NodeError
from sevenfold.node.mounts import Mount, filesystem, is_network, mount_of, require_local

MOUNTINFO = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /mnt/team\040share rw shared:9 - nfs4 server:/export rw,vers=4.2
31 22 0:41 / /data rw - xfs /dev/sdb rw
32 31 0:42 / /data rw,nosuid - fuse.sshfs me@there:/ rw
33 22 0:43 /sub /database rw master:1 - btrfs /dev/sdc rw
""".strip()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/me", Mount("ext4", "/")),
        ("/mnt/team share/x", Mount("nfs4", "/mnt/team share")),
        ("/data/x", Mount("fuse.sshfs", "/data")),
        ("/database", Mount("btrfs", "/database")),
    ],
)
def test_the_innermost_and_last_mount_counts(path: str, expected: Mount) -> None:
    assert mount_of(Path(path), MOUNTINFO) == expected


def test_no_mount_known() -> None:
    assert mount_of(Path("/x"), "") == Mount("unknown", "/")


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "9p", "lustre", "ceph", "fuse.sshfs", "fuse.s3fs", "fuse"])
def test_network(kind: str) -> None:
    assert is_network(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "overlay", "tmpfs", "zfs", "fuseblk", "fuse.fuse-overlayfs"])
def test_local(kind: str) -> None:
    assert not is_network(kind)


def test_this_machine(tmp_path: Path) -> None:
    assert filesystem(tmp_path / "not" / "yet").kind != "unknown"
    require_local(tmp_path, "the run folder")


def test_a_network_mount_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda _self: MOUNTINFO)
    with pytest.raises(NodeError, match=r"the run folder must lie on a local disk, not on nfs4") as error:
        require_local(Path("/mnt/team share/run"), "the run folder")
    assert "-o" in error.value.remedy
