"""The audit of a run or of any file of rows: every sample read once, memory flat."""

from collections.abc import Iterator
from pathlib import Path

from sevenfold.audit import Audit, Judge, Report, rules, text_samples
from sevenfold.config import Judge as Limits
from sevenfold.errors import ConfigError
from sevenfold.job.folder import RunFolder
from sevenfold.job.prepare import saved_spec
from sevenfold.ledger import Reader
from sevenfold.sources import records
from sevenfold.types import JSON, Sample, is_object


def audit(path: Path, limits: Limits | None = None) -> Audit:
    """`limits` None: those the run was given, or the defaults. ConfigError where `path` is neither run nor data."""
    folder = RunFolder(path)
    if folder.manifest.is_file():
        return _of_run(folder, limits)
    if not path.is_file():
        raise ConfigError(f"{path}: neither a run folder nor a file", "sevenfold audit RUN, or a JSONL or Parquet file")
    return _of_file(path, limits or Limits())


def _of_run(folder: RunFolder, limits: Limits | None) -> Audit:
    report = Report(rules(limits or saved_spec(folder).judge))
    for outcome in Reader(folder.path).outcomes():
        if isinstance(outcome, Sample):
            report.add(outcome)
        else:
            report.add_failure(outcome)
    return report.result()


def _of_file(path: Path, limits: Limits) -> Audit:
    """Foreign rows carry no verdicts: they are judged here, with thinking expected where any row thinks."""
    judge, report = Judge(rules(limits)), Report(rules(limits))
    for sample in text_samples(_objects(path)):
        report.add(judge.judge(sample))
    return report.result()


def _objects(path: Path) -> Iterator[JSON]:
    for record in records(path):
        if is_object(record.value):
            yield record.value
