"""Where a run stands, from its folder alone: ledger, index, and what driver and supervisor last said of themselves."""

import time
from pathlib import Path

import msgspec

from sevenfold import fleet
from sevenfold.errors import ConfigError
from sevenfold.job.folder import RunFolder
from sevenfold.job.prepare import saved_spec
from sevenfold.job.publish import DriveStatus, is_driven, published
from sevenfold.ledger import Reader
from sevenfold.sources import Index
from sevenfold.types import ReplicaStatus


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
    tokens: dict[str, int]
    rows_per_second: float
    tokens_per_second: float
    eta_seconds: tuple[float, float] | None
    requeued: int
    seen_seconds_ago: float | None
    """Age of the driver's last word; None where no driver is at work."""
    sentence: str
    """How the last driver ended."""
    exit_code: int | None
    fingerprint: str = ""
    schema: int = 1


def status(path: Path) -> RunStatus:
    """Works beside a running driver and after it. ConfigError where nothing of ours lies there."""
    folder = RunFolder(path)
    found = fleet.status(path)
    driver = published(folder)
    if not folder.manifest.is_file():
        return _fleet_only(path, found.replicas if found else ())
    index = Index(folder.index)
    counts, samples = index.counts(), saved_spec(folder).conversation.samples
    tally = Reader(path).tally()
    driven = is_driven(driver)
    total = counts.rows * samples + counts.refused
    left = total - counts.refused - tally.rows_done - tally.rows_failed
    rows = Rows(
        total=total,
        done=tally.rows_done,
        failed=tally.rows_failed,
        refused=counts.refused,
        in_flight=driver.in_flight if driver and driven else 0,
    )
    return RunStatus(
        run=str(path),
        state=_state(driver if driven else None, left, index.complete),
        rows=rows,
        verdicts=tally.verdicts,
        failures=tally.failure_kinds,
        replicas=found.replicas if found else (),
        tokens={"prompt": tally.prompt_tokens, "completion": tally.completion_tokens},
        rows_per_second=driver.rows_per_second if driver and driven else 0.0,
        tokens_per_second=driver.tokens_per_second if driver and driven else 0.0,
        eta_seconds=driver.eta if driver and driven else None,
        requeued=driver.requeued if driver else 0,
        seen_seconds_ago=round(time.time() - driver.at, 1) if driver and driven else None,
        sentence=driver.sentence if driver else "",
        exit_code=driver.exit_code if driver else None,
    )


def _state(driver: DriveStatus | None, left: int, counted: bool) -> str:
    if driver:
        return driver.phase
    return "finished" if counted and left <= 0 else "unfinished"


def _fleet_only(path: Path, replicas: tuple[ReplicaStatus, ...]) -> RunStatus:
    if not replicas:
        raise ConfigError(f"{path}: neither a run nor replicas lie here", "name a folder that `run` or `up` made")
    return RunStatus(
        run=str(path),
        state="fleet",
        rows=Rows(0, 0, 0, 0, 0),
        verdicts={},
        failures={},
        replicas=replicas,
        tokens={},
        rows_per_second=0.0,
        tokens_per_second=0.0,
        eta_seconds=None,
        requeued=0,
        seen_seconds_ago=None,
        sentence="",
        exit_code=None,
    )
