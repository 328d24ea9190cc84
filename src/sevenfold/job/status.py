"""Where a run stands, from its folder alone: ledger, index, and what driver and supervisor last said of themselves."""

import time
from pathlib import Path

import msgspec

from sevenfold import fleet
from sevenfold.errors import ConfigError
from sevenfold.job.folder import RunFolder
from sevenfold.job.prepare import saved_spec
from sevenfold.job.publish import DriveStatus, is_driven, published
from sevenfold.ledger import Reader, read_manifest
from sevenfold.sources import Index
from sevenfold.types import ReplicaStatus

NOBODY = DriveStatus(pid=0, started=0.0, at=0.0, phase="ended")


class Rows(msgspec.Struct, frozen=True):
    """A row is one sample of one accepted prompt; a refused input row counts once. total = done + failed + refused +
    what is left; `in_flight` is part of what is left."""

    total: int
    done: int
    failed: int
    refused: int
    in_flight: int


class RunStatus(msgspec.Struct, frozen=True):
    """`schema` grows when a field changes its meaning; fields are only ever added."""

    run: str
    state: str
    """'running', 'starting', 'draining', 'finished', 'unfinished', or 'fleet' where only replicas live here."""
    rows: Rows
    verdicts: dict[str, int]
    failures: dict[str, int]
    replicas: tuple[ReplicaStatus, ...]
    tokens: dict[str, int] = {}
    rows_per_second: float = 0.0
    tokens_per_second: float = 0.0
    eta_seconds: tuple[float, float] | None = None
    requeued: int = 0
    seen_seconds_ago: float | None = None
    """Age of the driver's last word; None where no driver is at work."""
    sentence: str = ""
    """How the last driver ended."""
    exit_code: int | None = None
    fingerprint: str = ""
    schema: int = 1


def status(path: Path) -> RunStatus:
    """Works beside a running driver and after it. ConfigError where nothing of ours lies there."""
    folder = RunFolder(path)
    found = fleet.status(path)
    driver = published(folder) or NOBODY
    live = driver if is_driven(driver) else NOBODY
    replicas = found.replicas if found else driver.replicas
    if not folder.manifest.is_file():
        return _fleet_only(path, replicas)
    index = Index(folder.index)
    counts, samples = index.counts(), saved_spec(folder).conversation.samples
    with Reader(path) as reader:
        tally = reader.tally()
    rows = Rows(
        total=counts.rows * samples + counts.refused,
        done=tally.rows_done,
        failed=tally.rows_failed,
        refused=counts.refused,
        in_flight=live.in_flight,
    )
    over = index.complete and rows.done + rows.failed + rows.refused >= rows.total
    return RunStatus(
        run=str(path),
        state=live.phase if live is not NOBODY else "finished" if over else "unfinished",
        rows=rows,
        verdicts=tally.verdicts,
        failures=tally.failure_kinds,
        replicas=replicas,
        tokens={"prompt": tally.prompt_tokens, "completion": tally.completion_tokens},
        rows_per_second=live.rows_per_second,
        tokens_per_second=live.tokens_per_second,
        eta_seconds=live.eta,
        requeued=driver.requeued,
        seen_seconds_ago=round(time.time() - live.at, 1) if live is not NOBODY else None,
        sentence=driver.sentence,
        exit_code=driver.exit_code,
        fingerprint=read_manifest(path).fingerprint,
    )


def _fleet_only(path: Path, replicas: tuple[ReplicaStatus, ...]) -> RunStatus:
    if not replicas:
        raise ConfigError(f"{path}: neither a run nor replicas lie here", "name a folder that `run` or `up` made")
    rows = Rows(total=0, done=0, failed=0, refused=0, in_flight=0)
    return RunStatus(run=str(path), state="fleet", rows=rows, verdicts={}, failures={}, replicas=replicas)
