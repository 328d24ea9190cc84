"""Where an answer becomes a row: judged, committed, counted by the gate. The next turn of its conversation goes back.

A row is done when `commit` has returned, not before. Runs in a worker thread of the drive, one batch at a time.
"""

from collections.abc import Callable

from sevenfold.audit import Gate, Judge
from sevenfold.drive import Answer
from sevenfold.job.feed import so_far
from sevenfold.ledger import Writer
from sevenfold.types import Ask, Failure, Outcome, Sample

CAREFUL, SLICE = 200, 25
"""Of the first so many rows only a few are committed before the gate has seen them: a bad run ends with few of them."""


class Sink:
    def __init__(
        self, writer: Writer, judge: Judge, gate: Gate, thinking: bool, seen: Callable[[Outcome], None]
    ) -> None:
        """`thinking`: whether it was asked for. `seen` hears of every outcome that is new in the ledger."""
        self._writer, self._judge, self._gate = writer, judge, gate
        self._thinking, self._seen = thinking, seen
        self._rows = 0

    def __call__(self, batch: list[Answer | Failure]) -> list[Ask]:
        size = SLICE if self._rows < CAREFUL else len(batch)
        return [ask for at in range(0, len(batch), size) for ask in self._settle(batch[at : at + size])]

    def _settle(self, batch: list[Answer | Failure]) -> list[Ask]:
        self._rows += len(batch)
        outcomes: list[Outcome] = []
        follow_ups: list[Ask] = []
        for answer in batch:
            if isinstance(answer, Failure):
                outcomes.append(answer)
                continue
            sample = self._judge.judge(as_sample(answer, self._thinking))
            outcomes.append(sample)
            if sample.turn + 1 == sample.turns:
                continue
            if sample.completion.answer.strip():
                turn = sample.turn + 1
                prompt = answer.ask.prompt
                follow_ups.append(Ask(prompt, sample.sample, turn, so_far(sample) + prompt.turns[turn]))
            else:
                outcomes.append(_unanswered(sample))
        for outcome, new in zip(outcomes, self._writer.commit(outcomes), strict=True):
            if new:
                self._seen(outcome)
                if isinstance(outcome, Sample):
                    self._gate.observe(outcome)
        return follow_ups


def as_sample(answer: Answer, thinking: bool) -> Sample:
    ask = answer.ask
    return Sample(
        key=ask.prompt.key,
        id=ask.prompt.id,
        sample=ask.sample,
        turn=ask.turn,
        turns=len(ask.prompt.turns),
        messages=ask.messages,
        completion=answer.completion,
        origin=ask.prompt.origin,
        replica=answer.replica,
        attempts=answer.attempts,
        seconds=answer.seconds,
        thinking=thinking,
        tools=ask.prompt.tools,
    )


def _unanswered(sample: Sample) -> Failure:
    return Failure(
        key=sample.key,
        id=sample.id,
        sample=sample.sample,
        turn=sample.turn + 1,
        turns=sample.turns,
        kind="no_history",
        reason=f"turn {sample.turn + 1} of {sample.turns} has no answer ({sample.verdict}): the next cannot be asked",
        origin=sample.origin,
        permanent=True,
        replica=sample.replica,
    )
