"""`audit`: is it any good."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from sevenfold.audit import render
from sevenfold.cli.output import put, put_json
from sevenfold.cli.talk import say
from sevenfold.config import Judge, decode
from sevenfold.errors import ConfigError, GateError
from sevenfold.job.audit import audit as examine


def audit(path: Path, /, *, json: bool = False, limit: Annotated[tuple[str, ...], Parameter(negative=())] = ()) -> int:
    """Judge a run or a file of rows: lengths, flags, the most frequent reply, the worst samples.

    Exit code 5 where a flag's share is over its limit.

    Parameters
    ----------
    path
        A run folder, or a JSONL or Parquet file of conversations.
    json
        One JSON object on stdout.
    limit
        FLAG=SHARE over the run's own limits; may be given several times.
    """
    found = examine(path, _limits(limit))
    if json:
        put_json(found)
    else:
        put(render(found))
    for name in found.over:
        flag = found.flags[name]
        say(f"sevenfold: {flag.share:.1%} of {found.rows:,} rows are {name} (limit {flag.limit:.0%})")
    return GateError.exit_code if found.over else 0


def _limits(given: tuple[str, ...]) -> Judge | None:
    if not given:
        return None
    table: dict[str, float] = {}
    for text in given:
        name, _, share = text.partition("=")
        try:
            table[name] = float(share)
        except ValueError:
            raise ConfigError(f"--limit {text}: not FLAG=SHARE", "such as --limit truncated=0.5") from None
    return decode({"judge": {"limits": table}}, "--limit").judge
