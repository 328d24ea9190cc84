"""A named model staged: found, seen to be whole, and copied where it fits."""

import time
from pathlib import Path

import msgspec

from sevenfold.node import memory
from sevenfold.node.models import fetched
from sevenfold.node.stage import Tick, size_of, stage
from sevenfold.node.wholeness import require_whole


class Staged(msgspec.Struct, frozen=True):
    path: str
    source: str
    bytes: int
    seconds: float
    reused: bool
    """Whether the whole copy lay there already."""


def staged(model: str, to: Path, tick: Tick) -> Staged:
    """ConfigError where the name means nothing, NodeError where the model is broken or does not fit."""
    source = fetched(model)
    if source.is_dir():
        require_whole(source)
    began, moved = time.monotonic(), False

    def heard(done: int, total: int) -> None:
        nonlocal moved
        moved = True
        tick(done, total)

    to = to.expanduser().absolute()
    path = stage(source, to, memory.room(to), heard)
    seconds = round(time.monotonic() - began, 2)
    return Staged(str(path), str(source), size_of(source), seconds if moved else 0.0, not moved)
