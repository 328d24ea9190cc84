"""`stage`: a model, once, to where it loads fast."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from sevenfold.cli.output import put, put_json
from sevenfold.cli.talk import Ticker, say
from sevenfold.errors import ConfigError
from sevenfold.job.stage import Staged, staged
from sevenfold.node.stage import clean as sweep


def stage(
    model: str | None = None,
    /,
    *,
    to: Path,
    clean: Annotated[bool, Parameter(negative=())] = False,
    json: bool = False,
) -> int:
    """Copy a model once to a local disk or RAM disk, and print where it lies there.

    In parallel, each byte read once, verified; a copy that was interrupted is gone on with. Refused before the first
    byte where it does not fit.

    Parameters
    ----------
    model
        Local model folder or GGUF file, or hf:ORG/NAME@REVISION.
    to
        Folder that takes the copy, such as /dev/shm.
    clean
        First remove what interrupted copies left there; without a model, do only that.
    json
        One JSON object on stdout instead of the path.
    """
    removed = sweep(to) if clean else ()
    for path in removed:
        say(f"removed {path}")
    if model is None:
        if not clean:
            raise ConfigError("no model was named", "sevenfold stage MODEL --to DIR")
        return 0
    ticker = Ticker()
    try:
        found = staged(model, to, lambda done, total: ticker.show(line(model, done, total)))
    finally:
        ticker.close()
    tell(found, json)
    return 0


def tell(found: Staged, json: bool) -> None:
    if json:
        put_json(found)
    else:
        put(found.path)
    speed = f" in {found.seconds:.1f} s" if found.seconds else ""
    say(f"{found.bytes / 1e9:.2f} GB {'was there already' if found.reused else 'copied and verified' + speed}")


def line(model: str, done: int, total: int) -> str:
    share = done / total if total else 1.0
    bar = "#" * int(20 * share)
    return f"staging {model} [{bar:<20}] {share:.0%} · {done / 1e9:.2f} of {total / 1e9:.2f} GB"
