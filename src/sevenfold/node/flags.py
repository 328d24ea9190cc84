"""What an installed engine takes on its command line, told by its own argument parser in its own python.

Asked once per interpreter and version, then read from the cache: importing an engine takes ten seconds and more. It
knows no engine; the program that makes the parser speak is given.
"""

import contextlib
import hashlib
import os
from pathlib import Path

import msgspec

from sevenfold.node.models import cache_folder
from sevenfold.node.process import output

PATIENCE = 240.0
"""Seconds for importing the engine: 15 from a local disk, minutes from a network mount."""

START = 30.0
"""Seconds for an interpreter that imports nothing but the index of its packages."""

VERSION = "import importlib.metadata as packages, sys; print(packages.version(sys.argv[1]))"


def installed(python: str, package: str) -> str:
    """The package's version in that interpreter; empty where it is not there, or the interpreter does not start."""
    return output((python, "-c", VERSION, package), START).strip()


def known_flags(python: str, package: str, version: str, program: str, cache: Path | None = None) -> set[str] | None:
    """Every option string that `program` prints as JSON in its last line. None where it cannot be had."""
    path = (cache or cache_folder()) / "flags" / f"{package}-{version}-{_mark(python, program)}.json"
    kept = _read(path)
    if kept is not None:
        return kept
    told = output((python, "-c", program), PATIENCE).strip().rpartition("\n")[2].encode()
    flags = _decoded(told)
    if flags is not None:
        _keep(path, told)
    return flags


def _mark(python: str, program: str) -> str:
    """The interpreter by its path as given, links not followed: environments share the binary, not the packages."""
    return hashlib.sha256(os.fsencode(Path(python).absolute()) + program.encode()).hexdigest()[:16]


def _read(path: Path) -> set[str] | None:
    try:
        return _decoded(path.read_bytes())
    except OSError:
        return None


def _decoded(text: bytes) -> set[str] | None:
    """None also where it is empty: an engine without flags was not asked right."""
    try:
        return msgspec.json.decode(text, type=set[str]) or None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _keep(path: Path, content: bytes) -> None:
    """Whole or not at all. A cache that cannot be written costs seconds the next time, nothing else."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside.write_bytes(content)
        beside.replace(path)
