"""Outcomes to commit, short to write."""

from typing import Any

from sevenfold.types import Completion, Failure, Message, Origin, Sample, Usage


def key_of(number: int) -> str:
    """32 hex digits whose first eight are the number: it belongs to file `number % files`."""
    return f"{number:08x}" + "0" * 24


def sample(
    number: int,
    turn: int = 0,
    turns: int = 1,
    sample: int = 0,
    *,
    answer: str = "yes",
    **more: Any,
) -> Sample:
    return Sample(
        key=key_of(number),
        id=number,
        sample=sample,
        turn=turn,
        turns=turns,
        messages=(Message("user", f"question {number}"),),
        completion=Completion(answer, "thought", "stop", Usage(10, 5)),
        origin=Origin("in.jsonl", number + 1),
        **{"replica": "0", **more},
    )


def failure(
    number: int,
    turn: int = 0,
    turns: int = 1,
    sample: int = 0,
    *,
    kind: str = "timeout",
    permanent: bool = False,
) -> Failure:
    return Failure(
        key=key_of(number),
        id=number,
        sample=sample,
        turn=turn,
        turns=turns,
        kind=kind,
        reason="no answer",
        origin=Origin("in.jsonl", number + 1),
        permanent=permanent,
        replica="0",
    )
