"""Which file system a path lies on, and whether it is a network's: locks, mmap and fsync cannot be trusted there."""

import re
from pathlib import Path

import msgspec

from sevenfold.errors import NodeError

NETWORK = frozenset({
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "afs", "ncpfs"),
    *("lustre", "ceph", "gpfs", "beegfs", "glusterfs", "gfs2", "ocfs2", "orangefs", "pvfs2", "wekafs", "vastnfs"),
})  # fmt: skip
DISKS = frozenset({"ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs"})
RAM = frozenset({"tmpfs", "ramfs"})
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
        kind = line.partition(" - ")[2]
        point = _point(line)
        # Of several mounts on one point the last one hides the others.
        if path.is_relative_to(point) and len(point) >= len(best.point):
            best = Mount(kind.split()[0], point)
    return best


def is_network(kind: str) -> bool:
    return kind in NETWORK or (kind.startswith("fuse") and kind not in LOCAL_FUSE)


def in_words(mount: Mount) -> str:
    """'fuse.mount-s3 (network)', 'tmpfs (RAM)', 'ext4 (local)'."""
    where = "network" if is_network(mount.kind) else "RAM" if mount.kind in RAM else "local"
    return f"{mount.kind} ({where})"


def local_places(mountinfo: str) -> tuple[str, ...]:
    """Mount points of disks and RAM disks that are made for data."""
    points: list[str] = []
    for line in mountinfo.splitlines():
        point = _point(line)
        kind = mount_of(Path(point), mountinfo).kind
        usable = kind in DISKS or (kind in RAM and point == "/dev/shm")
        if usable and not re.match(r"/(boot|etc|proc|run|snap|sys|usr|var)(/|$)|/dev/(?!shm$)", point):
            points.append(point)
    return tuple(dict.fromkeys(points))


def require_local(path: Path, what: str) -> None:
    """NodeError where `path` lies on a network mount."""
    mount = filesystem(path)
    if is_network(mount.kind):
        raise NodeError(
            f"{path}: {what} must lie on a local disk, not on {mount.kind} (mounted on {mount.point})",
            "put it on a local disk, e.g. -o /tmp/NAME, and copy the results afterwards",
        )


def _point(line: str) -> str:
    """The mount point in a line of mountinfo, its octal escapes undone."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), line.split()[4])
