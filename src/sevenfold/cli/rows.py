"""`rows`: a run's rows as JSON lines."""

import sys
from pathlib import Path
from typing import Literal

import msgspec

from sevenfold.job.rows import rows as read


def rows(run: Path, /, *, state: Literal["done", "failed", "pending", "refused"] | None = None) -> int:
    """Print one JSON object per row and sample, in input order; refused rows last.

    Parameters
    ----------
    run
        The run folder.
    state
        Only rows in this state.
    """
    encoder = msgspec.json.Encoder()
    for row in read(run):
        if state is None or row.state == state:
            sys.stdout.buffer.write(encoder.encode(row) + b"\n")
    return 0
