"""Samples out of anybody's rows, so that any file of conversations can be audited. Pure.

Reads `messages`, ShareGPT `conversations`, and a reply in a column of its own beside the prompt. Every assistant turn
is a sample. Whether a row was meant to think is a guess: yes, once any row thinks (or has the place for a thought),
and then for the last turn of a conversation only, since templates drop earlier thoughts.
"""

import hashlib
import itertools
from collections.abc import Iterable, Iterator
from typing import get_args

import msgspec

from sevenfold.errors import ConfigError
from sevenfold.types import JSON, Completion, FinishReason, Message, Origin, Sample, Usage, is_array, is_object

LOOK_AHEAD = 256
"""Rows looked at before the first is given out, to see whether they think."""
ASSISTANT = frozenset({"assistant", "gpt", "chatgpt", "bard", "bing", "model"})
USER = frozenset({"human", "user", "prompter"})
PROMPTS = ("prompt", "question", "instruction", "input", "query")
REPLIES = ("response", "completion", "answer", "output", "generated_text", "text")
THOUGHTS = ("reasoning_content", "reasoning", "thinking", "thought")
FINISHES: dict[str, FinishReason] = {each: each for each in get_args(FinishReason)}


class Turn(msgspec.Struct, frozen=True):
    """One message. `thought` None: nowhere in it is a place for one."""

    role: str
    text: str
    thought: str | None = None
    tool_calls: tuple[JSON, ...] | None = None


def text_samples(records: Iterable[JSON]) -> Iterator[Sample]:
    """ConfigError at the end where there were rows and none of them held a reply."""
    rows = enumerate(records, 1)
    turned = ((line, row, _turns(row)) for line, row in rows)
    ahead = list(itertools.islice(turned, LOOK_AHEAD))
    thinking, found = any(_thinks(turns) for _, _, turns in ahead), False
    for line, row, turns in itertools.chain(ahead, turned):
        thinking = thinking or _thinks(turns)
        for sample in _samples(line, row, turns, thinking):
            found = True
            yield sample
    if ahead and not found:
        raise ConfigError(
            "no row holds a reply",
            f"an audit reads messages, conversations, or one of {', '.join(REPLIES)} beside a prompt",
        )


def split_thought(text: str) -> tuple[str | None, str]:
    """(thought, answer). A lone closing tag ends a thought that the template opened; a second one stays in sight."""
    thought, closed, answer = text.partition("</think>")
    opened = thought.lstrip().startswith("<think>")
    if not closed and not opened:
        return None, text
    return thought.strip().removeprefix("<think>").strip("\n"), answer.lstrip("\n")


def _thinks(turns: list[Turn]) -> bool:
    return any(turn.thought is not None for turn in turns)


def _samples(line: int, row: JSON, turns: list[Turn], thinking: bool) -> Iterator[Sample]:
    replies = [at for at, turn in enumerate(turns) if turn.role == "assistant"]
    messages = tuple(Message(turn.role, turn.text, tool_calls=turn.tool_calls) for turn in turns)
    prompt = messages[: replies[-1]] if replies else ()
    key, name = row.get("key"), row.get("id")
    for number, at in enumerate(replies):
        turn, is_last = turns[at], at == replies[-1]
        yield Sample(
            key=key if isinstance(key, str) and key else _key(prompt),
            id=name if isinstance(name, str | int) else None,
            sample=_count(row, "sample"),
            turn=number,
            turns=len(replies),
            messages=messages[:at],
            completion=Completion(
                answer=turn.text,
                reasoning=turn.thought or "",
                finish_reason=_finish(row) if is_last else "stop",
                # A row's usage is that of its one request; of several turns nobody knows whose.
                usage=_usage(row) if len(replies) == 1 else Usage(),
                tool_calls=turn.tool_calls,
            ),
            origin=Origin("", line),
            thinking=(thinking and is_last) or bool(turn.thought),
        )


def _turns(row: JSON) -> list[Turn]:
    for column, role, text in (("messages", "role", "content"), ("conversations", "from", "value")):
        said = row.get(column)
        if is_array(said):
            return [_turn(each, role, text) for each in said if is_object(each)]
    reply = next((column for column in REPLIES if isinstance(row.get(column), str)), None)
    if reply is None:
        return []
    asked = [text for column in PROMPTS if column != reply and (text := _text(row.get(column)))]
    return [Turn("user", "\n\n".join(asked)), _assistant(row[reply], row)]


def _turn(said: JSON, role: str, text: str) -> Turn:
    who = str(said.get(role, said.get("role", ""))).lower()
    words = _text(said.get(text, said.get("content")))
    if who in ASSISTANT:
        return _assistant(words, said)
    return Turn("user" if who in USER else who, words)


def _assistant(words: str, said: JSON) -> Turn:
    calls = said.get("tool_calls")
    own = next((said[column] for column in THOUGHTS if isinstance(said.get(column), str)), None)
    thought, answer = (own, words) if own else split_thought(words)
    tool_calls = tuple(call for call in calls if is_object(call)) if is_array(calls) else None
    return Turn("assistant", answer, own if thought is None else thought, tool_calls or None)


def _text(value: object) -> str:
    if is_array(value):
        return "".join(str(part.get("text", "")) for part in value if is_object(part))
    return value if isinstance(value, str) else ""


def _finish(row: JSON) -> FinishReason:
    return FINISHES.get(str(row.get("finish_reason")), "stop")


def _usage(row: JSON) -> Usage:
    usage = row.get("usage")
    return Usage(completion_tokens=_count(usage, "completion_tokens")) if is_object(usage) else Usage()


def _count(row: JSON, column: str) -> int:
    value = row.get(column)
    return value if isinstance(value, int) and value > 0 else 0


def _key(messages: tuple[Message, ...]) -> str:
    return hashlib.blake2b(msgspec.json.encode(messages), digest_size=16).hexdigest()
