"""Datasets in, Prompts out. Knows nothing of engines, runs or what is done already."""

from sevenfold.sources.feed import prompts
from sevenfold.sources.index import Counts, Entry, Index, InputFile, Refusal
from sevenfold.sources.inspect import Inspection, inspect, summary
from sevenfold.sources.read import Record, expand, records

__all__ = [
    "Counts",
    "Entry",
    "Index",
    "InputFile",
    "Inspection",
    "Record",
    "Refusal",
    "expand",
    "inspect",
    "prompts",
    "records",
    "summary",
]
