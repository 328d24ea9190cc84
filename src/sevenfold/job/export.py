"""A run's good rows as a file that trainers read, with a manifest that says where they come from."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from sevenfold import __version__
from sevenfold.job.folder import existing
from sevenfold.job.prepare import saved_spec
from sevenfold.job.rows import conversations
from sevenfold.ledger import read_manifest
from sevenfold.shards import Written, messages_row, write
from sevenfold.sources import Index
from sevenfold.types import JSON, Sample


def export(run: Path, form: str, output: Path, force: bool = False) -> Written:
    """The run's rows in input order, each up to its first turn that is not ok. Written whole or not at all."""
    folder = existing(run)
    manifest, index = read_manifest(run), Index(folder.index)
    provenance: JSON = {
        "sevenfold": __version__,
        "run": manifest.fingerprint,
        "spec": msgspec.to_builtins(saved_spec(folder)),
        "asked": manifest.asked,
        "model": manifest.model,
        "inputs": msgspec.to_builtins(index.files()),
    }
    return write(_rows(run), output, form, provenance, force)


def _rows(run: Path) -> Iterator[JSON]:
    for _key, _sample, outcomes in conversations(run):
        turns = [outcome for outcome in outcomes if isinstance(outcome, Sample)]
        row = messages_row(turns)
        if row is not None:
            yield row
