"""Rows into a file, whole or not at all, and a manifest beside it that says what is in it. The one I/O of this room.

The file's name says how: .parquet is Parquet, anything else JSONL, compressed where it ends in .gz or .zst. The same
rows give the same bytes.
"""

import contextlib
import gzip
import hashlib
import io
import os
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, cast

import msgspec
import zstandard

from sevenfold.errors import ConfigError, NodeError
from sevenfold.shards.formats import FORMATS
from sevenfold.shards.parquet import write_parquet
from sevenfold.types import JSON

BUFFER = 1 << 20
"""Bytes handed to the disk at once."""


class Written(msgspec.Struct, frozen=True):
    """`bytes` and `sha256` (hex) of the file as it lies on the disk."""

    rows: int
    bytes: int
    sha256: str


def write(rows: Iterable[JSON], path: Path, form: str, provenance: JSON, force: bool = False) -> Written:
    """Streams the rows to `path`, then writes PATH.manifest.json: the provenance, and what was counted here.

    ConfigError where the file is there already (without `force`) or the format is unknown; NodeError where the disk
    refuses. The old file then stands, and nothing half-written lies beside it."""
    if form not in FORMATS:
        raise ConfigError(f"no training format is called {form}", f"formats: {', '.join(FORMATS)}")
    if path.is_dir():
        raise ConfigError(f"{path}: is a folder", "name the file to write")
    if path.exists() and not force:
        raise ConfigError(f"{path}: is there already", "name another file, or --force to replace it")
    verdicts: Counter[str] = Counter()
    with _whole(path) as raw:
        _encode(_counted(rows, verdicts), raw, path, form)
    written = Written(verdicts.total(), raw.count, raw.digest.hexdigest())
    manifest = {
        **provenance,
        "file": path.name,
        "format": form,
        **msgspec.to_builtins(written),
        "verdicts": dict(verdicts),
    }
    with _whole(path.with_name(path.name + ".manifest.json")) as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
    return written


class _Hashed(io.RawIOBase):
    """A file that counts and hashes what goes through it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.count, self.digest = 0, hashlib.sha256()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.count

    def write(self, data: Any) -> int:
        size = self._file.write(data)
        self.digest.update(data)
        self.count += size
        return size


@contextlib.contextmanager
def _whole(path: Path) -> Generator[_Hashed]:
    """A file that gets its name when everything is on the disk."""
    # Named after the process, so that two exports at once never write into each other's file.
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb", BUFFER) as file:
            yield _Hashed(file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        why = error.strerror or str(error)
        raise NodeError(
            f"{path}: cannot be written: {why}", f"see that {path.parent} has space and may be written to"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Makes a renamed file survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _encode(rows: Iterable[JSON], file: _Hashed, path: Path, form: str) -> None:
    match path.suffix:
        case ".parquet":
            write_parquet(rows, file, form)
        case ".gz":
            # Neither name nor time in the header: the same rows give the same bytes.
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                _write_lines(rows, packed)
        case ".zst":
            with zstandard.ZstdCompressor().stream_writer(cast(IO[bytes], file), closefd=False) as packed:
                _write_lines(rows, packed)
        case _:
            _write_lines(rows, file)


def _write_lines(rows: Iterable[JSON], file: Any) -> None:
    encode = msgspec.json.Encoder().encode
    for row in rows:
        file.write(encode(row) + b"\n")


def _counted(rows: Iterable[JSON], verdicts: Counter[str]) -> Iterator[JSON]:
    for row in rows:
        verdicts[row["verdict"]] += 1
        yield row
