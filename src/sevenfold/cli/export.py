"""`export`: good rows into a file that trainers read."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from sevenfold.cli.talk import say
from sevenfold.job.export import export as deliver


def export(
    run: Path,
    /,
    *,
    to: Literal["messages"] = "messages",
    output: Annotated[Path, Parameter(name=["-o", "--output"])],
    force: bool = False,
) -> int:
    """Write the good rows of a run, and a manifest beside them.

    Parameters
    ----------
    run
        The run folder.
    to
        'messages': one conversation a row; JSONL, or Parquet where the file is named .parquet; .gz and .zst compress.
    output
        The file to write, whole or not at all.
    force
        Replace the file if it is there.
    """
    written = deliver(run, to, output, force)
    say(f"{written.rows:,} rows, {written.bytes:,} bytes in {output} (manifest beside it)")
    return 0
