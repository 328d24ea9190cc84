"""Conversations as the ledger holds them."""

from sevenfold.types import JSON, Completion, Message, Origin, Sample, Usage


def sample(
    turn: int = 0,
    turns: int = 1,
    *,
    name: str | int | None = "q1",
    history: tuple[Message, ...] = (),
    flags: tuple[str, ...] = (),
    reasoning: str = "a thought",
    tools: tuple[JSON, ...] | None = None,
    tool_calls: tuple[JSON, ...] | None = None,
) -> Sample:
    return Sample(
        key="0" * 32,
        id=name,
        sample=0,
        turn=turn,
        turns=turns,
        messages=(*history, Message("user", f"question {turn} 猫")),
        completion=Completion(
            f"answer {turn}", reasoning, "stop", Usage(10, 20 + turn), model="m", tool_calls=tool_calls
        ),
        origin=Origin("f", 1),
        flags=flags,
        tools=tools,
    )


def conversation(turns: int, start: tuple[Message, ...] = ()) -> list[Sample]:
    """Each turn asked with what came before it as history, thoughts left out."""
    samples: list[Sample] = []
    history = start
    for turn in range(turns):
        samples.append(sample(turn, turns, history=history))
        history = (*samples[-1].messages, Message("assistant", samples[-1].completion.answer))
    return samples
