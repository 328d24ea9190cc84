"""`status`: one screen of where a run stands."""

import time
from pathlib import Path

from sevenfold.cli.output import put, put_json
from sevenfold.job.folder import latest
from sevenfold.job.status import RunStatus
from sevenfold.job.status import status as read
from sevenfold.observe.progress import duration, eta_words
from sevenfold.types import ReplicaStatus


def status(run: Path | None = None, /, *, json: bool = False) -> int:
    """Say where a run stands, from any shell.

    Parameters
    ----------
    run
        The run folder. Default: the latest under ./runs.
    json
        One JSON object on stdout.
    """
    found = read(run or latest())
    if json:
        put_json(found)
    else:
        put(screen(found))
    return 0


def screen(found: RunStatus) -> str:
    rows = found.rows
    lines = [f"{found.run}  {found.state}"]
    if found.sentence:
        lines.append(f"  last driver: {found.sentence}")
    lines.append(
        f"  rows      {rows.done:,} done, {rows.failed:,} failed, {rows.refused:,} refused of {rows.total:,}"
        f"; {rows.in_flight:,} in flight"
    )
    if found.seen_seconds_ago is not None:
        speed = f"{found.rows_per_second:.1f} rows/s, {found.tokens_per_second:,.0f} tok/s"
        lines.append(f"  rate      {speed}, {eta_words(found.eta_seconds)} (seen {found.seen_seconds_ago:.0f}s ago)")
    lines.append(f"  verdicts  {_counts(found.verdicts)}")
    lines.append(f"  failures  {_counts(found.failures)}")
    for replica in found.replicas:
        lines.append(f"  replica {replica.name}  {_replica(replica)}")
    return "\n".join(lines)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in sorted(counts.items(), key=lambda item: -item[1])) or "none"


def _replica(replica: ReplicaStatus) -> str:
    since = duration(max(0.0, time.time() - replica.since))
    where = f"{replica.url} pid {replica.pid}" if replica.pid else replica.url
    parts = [f"{replica.phase} for {since}", where, f"{replica.slots} slots"]
    if replica.plan_and_got and not replica.is_off_plan:  # else the warning says it
        parts.append(replica.plan_and_got)
    if replica.warning:
        parts.append(replica.warning)
    if replica.restarts:
        parts.append(f"{replica.restarts} restarts")
    if replica.reason or replica.progress:
        parts.append(replica.reason or replica.progress)
    return ", ".join(parts)
