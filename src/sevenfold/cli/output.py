"""stdout is data: JSON lines, or plain text."""

import sys
from typing import Any

import msgspec


def put_json(value: Any, indent: int = 2) -> None:
    """One JSON document; `indent` 0 keeps it on one line."""
    encoded = msgspec.json.encode(value)
    sys.stdout.buffer.write((msgspec.json.format(encoded, indent=indent) if indent else encoded) + b"\n")


def put(text: str) -> None:
    sys.stdout.write(text + "\n")
