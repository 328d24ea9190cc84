"""Which file system a path lies on, and whether it is a network's: locks, mmap and fsync cannot be trusted there."""

import re
from pathlib import Path

import msgspec

from sevenfold.errors import NodeError

NETWORK = frozenset({
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "afs", "ncpfs"),
    *("lustre", "ceph", "gpfs", "beegfs", "glusterfs", "gfs2", "ocfs2", "orangefs", "pvfs2", "wekafs", "vastnfs"),
})  # fmt: skip
LOCAL_FUSE = frozenset({"fuse.fuse-overlayfs", "fuseblk"})
"""Rootless containers' root and NTFS disks; all other FUSE mounts that one meets are object stores and ssh."""


class Mount(msgspec.Struct, frozen=True):
    kind: str
    """Its type as the kernel names it: 'ext4', 'overlay', 'nfs4', 'fuse.sshfs', ..."""
    point: str


def filesystem(path: Path) -> Mount:
    """Where the path lies, or will: it need not exist."""
    return mount_of(path.resolve(), Path("/proc/self/mountinfo").read_text())


def mount_of(path: Path, mountinfo: str) -> Mount:
    """The innermost mount over an absolute path, from /proc/self/mountinfo's text (proc_pid_mountinfo(5))."""
    best = Mount("unknown", "/")
    for line in mountinfo.splitlines():
        place, _, kind = line.partition(" - ")
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), place.split()[4])
        # Of several mounts on one point the last one hides the others.
        if path.is_relative_to(point) and len(point) >= len(best.point):
            best = Mount(kind.split()[0], point)
    return best


def is_network(kind: str) -> bool:
    return kind in NETWORK or (kind.startswith("fuse") and kind not in LOCAL_FUSE)


def require_local(path: Path, what: str) -> None:
    """NodeError where `path` lies on a network mount."""
    mount = filesystem(path)
    if is_network(mount.kind):
        raise NodeError(
            f"{path}: {what} must lie on a local disk, not on {mount.kind} (mounted on {mount.point})",
            "put it on a local disk, e.g. -o /tmp/NAME, and copy the results afterwards",
        )
