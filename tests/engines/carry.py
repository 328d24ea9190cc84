"""Carries an exchange or inquiry over recorded replies."""

from collections.abc import Generator
from typing import Any, TypeVar

import msgspec

from sevenfold.config import Sampling
from sevenfold.engines.base import Question, Reply, Request
from sevenfold.types import Message

Outcome = TypeVar("Outcome")


def carry(
    generator: Generator[Request, Reply, Outcome], *replies: tuple[int, Any]
) -> tuple[list[tuple[str, Any]], Outcome]:
    """Requests as (path, decoded body), and what came of them. Replies as (status, body)."""
    asked: list[tuple[str, Any]] = []
    request = next(generator)
    for status, body in replies:
        asked.append((request.path, msgspec.json.decode(request.body) if request.body is not None else None))
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        try:
            request = generator.send(Reply(status, raw))
        except StopIteration as end:
            assert len(asked) == len(replies)
            return asked, end.value
    raise AssertionError(f"another request was sent: {request.path}")


def question(**changes: Any) -> Question:
    asked = Question(
        messages=(Message("user", "2 + 2?"),),
        model="qwen",
        sampling=Sampling(max_tokens=512),
        thinking=True,
        request_id="0123456789abcdef0123456789abcdef",
        prompt_token_ids=(1, 2, 3),
        rendered_prompt="<|im_start|>user\n2 + 2?<|im_end|>\n<|im_start|>assistant\n<think>\n",
        end_tokens={7: "<|im_end|>"},
    )
    return msgspec.structs.replace(asked, **changes)
