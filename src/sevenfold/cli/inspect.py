"""`inspect`: what would be sent, without sending it."""

from typing import Literal

from sevenfold.cli.output import put, put_json
from sevenfold.sources import inspect as look
from sevenfold.sources import summary


def inspect(*inputs: str, turns: Literal["last", "all"] = "last", json: bool = False) -> int:
    """Show how files of prompts are read: formats, accepted rows, and every refused row with its reason.

    Parameters
    ----------
    inputs
        Files of prompts; globs are resolved.
    turns
        As for `run`.
    json
        One JSON object on stdout, with every refused row.
    """
    found = look(inputs, turns)
    if json:
        put_json(found)
    else:
        put(summary(found))
    return 0
