"""What a run folder belongs to: written when the run begins, read before anything is added to it.

Knows nothing of what the fields mean; the fingerprint's owner compares them.
"""

from pathlib import Path

import msgspec

from sevenfold.errors import ConfigError
from sevenfold.ledger.atomic import atomic_write
from sevenfold.types import JSON

FORMAT = 1
"""Of the run folder. It grows when an older sevenfold would misread what this one writes."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    version: str
    """Of the sevenfold that began the run."""
    created: str
    """ISO 8601, UTC."""
    fingerprint: str
    asked: JSON
    model: JSON
    inputs: JSON = {}
    host: str


class _Head(msgspec.Struct, frozen=True):
    format: int


def write_manifest(run: Path, manifest: Manifest) -> None:
    atomic_write(_path(run), msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")


def read_manifest(run: Path) -> Manifest:
    """ConfigError where there is none, where it is not ours, or where a newer sevenfold wrote it."""
    path = _path(run)
    try:
        content = path.read_bytes()
        head = msgspec.json.decode(content, type=_Head)
        if head.format > FORMAT:
            raise ConfigError(
                f"{path}: format {head.format}; this sevenfold reads formats up to {FORMAT}",
                "pip install --upgrade sevenfold",
            )
        return msgspec.json.decode(content, type=Manifest)
    except FileNotFoundError:
        raise ConfigError(f"{run}: no run lies here (no manifest.json)", "name a folder that a run made") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a manifest of sevenfold: {error}", "name a folder that a run made") from None


def _path(run: Path) -> Path:
    return run / "manifest.json"
