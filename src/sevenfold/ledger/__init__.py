"""What is done, for good. A row is done when `Writer.commit` has returned."""

from sevenfold.ledger.atomic import atomic_write
from sevenfold.ledger.files import create
from sevenfold.ledger.ledger import Writer
from sevenfold.ledger.manifest import Manifest, read_manifest, write_manifest
from sevenfold.ledger.reader import Reader, Standing, Tally

__all__ = [
    "Manifest",
    "Reader",
    "Standing",
    "Tally",
    "Writer",
    "atomic_write",
    "create",
    "read_manifest",
    "write_manifest",
]
