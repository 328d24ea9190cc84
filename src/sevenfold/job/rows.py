"""Every row of a run as it stands: what was accepted, in input order, then what was refused.

Reads index and ledger in chunks beside a running driver; memory does not grow with the run.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from sevenfold.job.folder import existing
from sevenfold.job.prepare import saved_spec
from sevenfold.ledger import Reader
from sevenfold.sources import Index
from sevenfold.types import Failure, Outcome, Sample, Usage

CHUNK = 256
"""Rows held at once: with replies of 8 KB and several turns some megabytes."""

Conversation = tuple[str, int, Sequence[Outcome]]
"""(key, sample, its outcomes in turn order): empty where nothing has come yet."""


class Turn(msgspec.Struct, frozen=True):
    verdict: str
    finish_reason: str
    reasoning: str
    answer: str
    usage: Usage


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One sample of one row. The fields of the reply are those of the last turn that was answered."""

    id: str | int | None
    key: str
    sample: int
    state: Literal["done", "failed", "pending", "refused"]
    verdict: str | None = None
    """The first verdict other than ok among the turns, else ok."""
    finish_reason: str | None = None
    reasoning: str | None = None
    answer: str | None = None
    usage: Usage | None = None
    attempts: int = 0
    replica: str | None = None
    reason: str | None = None
    """Why it failed or was refused."""
    file: str | None = None
    line: int | None = None
    turns: tuple[Turn, ...] = ()
    """Every answered turn, where the conversation has more than one."""


def conversations(path: Path) -> Iterator[Conversation]:
    """Each (key, sample) of the run in input order with the outcomes it has so far."""
    folder = existing(path)
    index, reader = Index(folder.index), Reader(path)
    samples = range(saved_spec(folder).conversation.samples)
    after = 0
    while chunk := index.chunk(after, CHUNK):
        after = chunk[-1].ordinal
        found: dict[tuple[str, int], list[Outcome]] = {}
        for outcome in reader.outcomes([entry.key for entry in chunk]):
            found.setdefault((outcome.key, outcome.sample), []).append(outcome)
        for entry in chunk:
            for sample in samples:
                outcomes = found.get((entry.key, sample), [])
                yield entry.key, sample, sorted(outcomes, key=lambda outcome: outcome.turn)


def rows(path: Path) -> Iterator[Row]:
    for key, sample, outcomes in conversations(path):
        yield _row(key, sample, outcomes)
    for refusal in Index(existing(path).index).refusals():
        yield Row(
            id=None, key="", sample=0, state="refused", reason=refusal.reason, file=refusal.file, line=refusal.line
        )


def _row(key: str, sample: int, outcomes: Sequence[Outcome]) -> Row:
    if not outcomes:
        return Row(id=None, key=key, sample=sample, state="pending")
    last = outcomes[-1]
    answered = [outcome for outcome in outcomes if isinstance(outcome, Sample)]
    failure = last if isinstance(last, Failure) else None
    whole = failure is None and last.turn + 1 == last.turns
    row = Row(
        id=last.id,
        key=key,
        sample=sample,
        state="failed" if failure else "done" if whole else "pending",
        attempts=last.attempts,
        replica=last.replica or None,
        reason=failure.reason if failure else None,
        file=last.origin.file,
        line=last.origin.line,
        turns=tuple(_turn(turn) for turn in answered) if last.turns > 1 else (),
    )
    return msgspec.structs.replace(row, **_reply(answered)) if answered else row


def _reply(answered: Sequence[Sample]) -> dict[str, object]:
    completion = answered[-1].completion
    return {
        "verdict": next((turn.verdict for turn in answered if turn.flags), "ok"),
        "finish_reason": completion.finish_reason,
        "reasoning": completion.reasoning,
        "answer": completion.answer,
        "usage": completion.usage,
    }


def _turn(sample: Sample) -> Turn:
    completion = sample.completion
    return Turn(sample.verdict, completion.finish_reason, completion.reasoning, completion.answer, completion.usage)
