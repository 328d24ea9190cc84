"""Samples as the tests of this room need them."""

import random

from sevenfold.types import Completion, FinishReason, Message, Origin, Sample, Usage


def sample(
    answer: str = "The train needs three hours for the whole way, stops included.",
    reasoning: str = "Speed times time is way, so I divide.",
    *,
    finish: FinishReason = "stop",
    tokens: int = 40,
    key: str = "0" * 32,
    thinking: bool = True,
    question: str = "How long does the train need?",
    flags: tuple[str, ...] = (),
    tool_calls: tuple[dict[str, str], ...] | None = None,
) -> Sample:
    return Sample(
        key=key,
        id=None,
        sample=0,
        turn=0,
        turns=1,
        messages=(Message("user", question),),
        completion=Completion(answer, reasoning, finish, Usage(10, tokens), tool_calls=tool_calls),
        origin=Origin("prompts.jsonl", 1),
        thinking=thinking,
        flags=flags,
    )


def prose(characters: int, seed: int = 0) -> str:
    """Words that do not repeat in stretches."""
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) for _ in range(300)]
    text = " ".join(draw.choices(words, k=characters // 3))
    return text[:characters]
