"""A model folder copied once to local disk or RAM disk: in parallel, resumable, verified, only where it fits.

Promises that each byte of the source is read once, also when several stagers start together or one was killed: finished
chunks are journalled with their hash, checked against the local copy at the next start, and not fetched again.
Knows nothing of engines. A folder under the target that ends in `.partial` is an unfinished copy.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from sevenfold.errors import NodeError

CHUNK = 64 * 2**20
"""Bytes fetched and journalled at a time: a kill costs at most one chunk per reader, and a mount streams well."""
READERS = 8
"""Chunks in flight: network mounts reach their bandwidth with several streams only."""
HEADROOM = 1.05
"""Times the model's size that must be free: file systems count metadata, and a full RAM disk kills the engine later."""
RECORD = "stage.json"


class Piece(msgspec.Struct, frozen=True):
    """One chunk of one file, as the journal holds it. `offset` and `size` in bytes, `digest` blake2b-128 in hex."""

    file: str
    offset: int
    size: int
    digest: str = ""


class Room(msgspec.Struct, frozen=True):
    """What the target can hold, in bytes; `memory` is what the machine can still give where the target lies in RAM."""

    free: int
    memory: int | None = None
    stale: tuple[str, ...] = ()
    """Unfinished copies of other models that lie there."""


Tick = Callable[[int, int], None]


def refusal(size: int, room: Room) -> str | None:
    """Why `size` bytes cannot be staged there, None where they can. Pure."""
    need = int(size * HEADROOM)
    if room.free < need:
        stale = f"; unfinished copies lie there: {', '.join(room.stale)}" if room.stale else ""
        return f"{_gib(need)} are needed and {_gib(room.free)} are free{stale}"
    if room.memory is not None and room.memory < need:
        return f"it lies in RAM: {_gib(need)} are needed and the machine has {_gib(room.memory)} left"
    return None


def stage(source: Path, target: Path, room: Room, tick: Tick = lambda done, total: None, chunk: int = CHUNK) -> Path:
    """The local copy of `source` under `target`. `tick` hears (bytes done, bytes in all).

    NodeError before the first byte where it does not fit, or where a copy differs from its source."""
    files = _files(source)
    final = target / f"{source.name}-{_identity(source, files)}"
    target.mkdir(parents=True, exist_ok=True)
    with _alone(target / f".{final.name}.lock"):
        if (final / RECORD).is_file():
            return _staged(source, final)
        partial = target / f"{final.name}.partial"
        pieces = _pieces(files, chunk)
        known = _journalled(partial)
        total = sum(piece.size for piece in pieces)
        kept = sum(piece.size for piece in known.values())
        others = tuple(name for name in room.stale if name != partial.name)
        why = refusal(total - kept, msgspec.structs.replace(room, stale=others))
        if why:
            raise NodeError(f"{source} does not fit into {target}: {why}", "free room there, or stage elsewhere")
        partial.mkdir(exist_ok=True)
        _copy(files, pieces, known, partial, lambda done: tick(done, total))
        (partial / RECORD).write_bytes(msgspec.json.encode({"source": str(source), "bytes": total}))
        (partial / "journal").unlink(missing_ok=True)
        partial.rename(final)
    return _staged(source, final)


def size_of(source: Path) -> int:
    """Bytes of a model file or folder; files behind links count as what they are."""
    return sum(path.stat().st_size for path in _files(source).values())


def left_over(target: Path) -> tuple[Path, ...]:
    """Unfinished copies that no stager is at work on."""
    return tuple(path for path in sorted(target.glob("*.partial")) if not _is_held(path))


def clean(target: Path) -> tuple[Path, ...]:
    """Removes them, and says which."""
    found = left_over(target)
    for path in found:
        shutil.rmtree(path)
    return found


def _copy(
    files: dict[str, Path],
    pieces: Iterable[Piece],
    known: dict[tuple[str, int], Piece],
    partial: Path,
    tick: Callable[[int], None],
) -> None:
    lock, done = threading.Lock(), 0
    with (partial / "journal").open("ab") as journal, ThreadPoolExecutor(READERS) as readers:

        def fetch(piece: Piece) -> None:
            nonlocal done
            before = known.get((piece.file, piece.offset))
            local = partial / piece.file
            if not (before and _digest(local, piece) == before.digest):
                record = _fetch(files[piece.file], local, piece)
                if _digest(local, piece) != record.digest:
                    raise NodeError(
                        f"{local}: differs from its source at byte {piece.offset}", "check the target's disk"
                    )
                with lock:
                    journal.write(msgspec.json.encode(record) + b"\n")
                    journal.flush()
            with lock:
                done += piece.size
                tick(done)

        for _ in readers.map(fetch, pieces):
            pass


def _fetch(source: Path, local: Path, piece: Piece) -> Piece:
    local.parent.mkdir(parents=True, exist_ok=True)
    try:
        content = _read(source, piece)
        if len(content) != piece.size:
            raise NodeError(f"{source}: shorter than it was when the copy began", "stage it again")
        handle = os.open(local, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            written = 0
            while written < len(content):
                written += os.pwrite(handle, memoryview(content)[written:], piece.offset + written)
        finally:
            os.close(handle)
    except OSError as error:
        raise NodeError(
            f"{source} -> {local}: {error.strerror}", "free room, or check the mount; then stage again"
        ) from None
    return Piece(piece.file, piece.offset, piece.size, hashlib.blake2b(content, digest_size=16).hexdigest())


def _read(path: Path, piece: Piece) -> bytes:
    """Less than the piece only where the file ends: one read of a network mount may bring a part."""
    parts: list[bytes] = []
    with path.open("rb", buffering=0) as file:
        at, left = piece.offset, piece.size
        while left and (part := os.pread(file.fileno(), left, at)):
            parts.append(part)
            at, left = at + len(part), left - len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _digest(local: Path, piece: Piece) -> str:
    try:
        content = _read(local, piece)
    except OSError:
        return ""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _files(source: Path) -> dict[str, Path]:
    """By their names in the copy. Links to files, as the hub's cache is made of, are the files they lead to."""
    if source.is_file():
        return {source.name: source}
    return {path.relative_to(source).as_posix(): path for path in sorted(source.rglob("*")) if path.is_file()}


def _staged(source: Path, final: Path) -> Path:
    return final / source.name if source.is_file() else final


def _pieces(files: dict[str, Path], chunk: int) -> list[Piece]:
    pieces: list[Piece] = []
    for name, path in files.items():
        size = path.stat().st_size
        pieces += [Piece(name, at, min(chunk, size - at)) for at in range(0, max(size, 1), chunk)]
    return pieces


def _journalled(partial: Path) -> dict[tuple[str, int], Piece]:
    """Chunks that an earlier stager finished; a torn last line is none."""
    known: dict[tuple[str, int], Piece] = {}
    with contextlib.suppress(FileNotFoundError):
        for line in (partial / "journal").read_bytes().splitlines():
            with contextlib.suppress(msgspec.DecodeError):
                piece = msgspec.json.decode(line, type=Piece)
                known[piece.file, piece.offset] = piece
    return known


def _identity(source: Path, files: dict[str, Path]) -> str:
    """12 hex digits over the resolved path and every file's name, size and time."""
    facts = [(name, path.stat().st_size, path.stat().st_mtime_ns) for name, path in files.items()]
    return hashlib.blake2b(msgspec.json.encode([str(source.resolve()), facts]), digest_size=6).hexdigest()


@contextlib.contextmanager
def _alone(lock: Path) -> Generator[None]:
    """One stager at a time; the others wait and then find the finished copy."""
    with lock.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _is_held(partial: Path) -> bool:
    lock = partial.with_name(f".{partial.name.removesuffix('.partial')}.lock")
    if not lock.exists():
        return False
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        return False


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"
