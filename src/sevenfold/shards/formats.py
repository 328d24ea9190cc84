"""One conversation's samples in, one row of training data out. Pure.

Promises that every assistant turn that was generated is one that no check spoke against: a conversation ends before its
first flagged, failed or missing turn. Answers that the input brought along stay where they were, as history.

Add a format: one function from samples to a row in FORMATS, its Parquet schema in parquet.py, and a test that loads the
file with the library it is for.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from sevenfold.types import JSON, Message, Sample


def messages_row(turns: Sequence[Sample]) -> JSON | None:
    """`turns`: the samples of one (key, sample) in turn order, holes and flagged ones among them. None where the first
    turn is not good already.

    `finish_reason`, `usage` and `model` are those of the last turn in the row; `turns` are in it, `turns_asked` were
    asked."""
    good = list(_good(turns))
    if not good:
        return None
    last = good[-1]
    row: JSON = {
        "id": last.id,
        "key": last.key,
        "sample": last.sample,
        "messages": [_message(message) for message in _conversation(good)],
        "finish_reason": last.completion.finish_reason,
        "usage": msgspec.to_builtins(last.completion.usage),
        "model": last.completion.model,
        "verdict": last.verdict,
        "thinking": last.thinking,
        "turns": len(good),
        "turns_asked": last.turns,
    }
    return row | {"tools": list(last.tools)} if last.tools else row


FORMATS: dict[str, Callable[[Sequence[Sample]], JSON | None]] = {"messages": messages_row}


def _good(turns: Sequence[Sample]) -> Iterator[Sample]:
    for number, sample in enumerate(turns):
        if sample.turn != number or sample.flags:
            return
        yield sample


def _conversation(turns: Sequence[Sample]) -> Iterator[Message]:
    """Each turn's own messages, then its reply: the history that it was asked with has no thoughts in it."""
    said = 0
    for sample in turns:
        yield from sample.messages[said:]
        completion = sample.completion
        yield Message(
            "assistant", completion.answer, reasoning=completion.reasoning or None, tool_calls=completion.tool_calls
        )
        said = len(sample.messages) + 1


def _message(message: Message) -> JSON:
    """With `reasoning` under the name that chat templates and trainers read."""
    row: JSON = msgspec.to_builtins(message)
    row.setdefault("content", None)
    if message.tool_calls:
        row["tool_calls"] = list(message.tool_calls)
    if "reasoning" in row:
        row["reasoning_content"] = row.pop("reasoning")
    return row
