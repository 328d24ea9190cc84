"""Samples in, training data out."""

from sevenfold.shards.formats import FORMATS, messages_row
from sevenfold.shards.writer import Written, write

__all__ = ["FORMATS", "Written", "messages_row", "write"]
