"""What people's rows mean: one JSON value in, one Draft (the turns to ask) out, or Refused with the reason. Pure.

Promises that an old answer never stays where a new one is asked for, that nothing the row needs (an image, a tool, an
unknown speaker) is dropped in silence, and that columns it does not know change nothing.

Add a form: one function from row to messages in FORMATS, the column that gives it away in COLUMNS, and a row in
tests/sources/test_formats.py. The first column of COLUMNS that the row has decides.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, cast

import msgspec

from sevenfold.config import Sampling
from sevenfold.sources.messages import Refused, as_list, as_message, as_text
from sevenfold.sources.read import Record
from sevenfold.types import JSON, Message

Turns = Literal["last", "all"]
Split = tuple[tuple[Message, ...], ...]

ID_COLUMNS = ("id", "custom_id", "question_id", "prompt_id")
SYSTEM_COLUMNS = ("system", "system_prompt")
MEDIA_COLUMNS = frozenset({"image", "images", "video", "videos", "audio", "audios"})
NOT_SAMPLING = frozenset(
    {"messages", "tools", "model", "n", "stream", "stream_options", "user", "metadata", "store", "service_tier"}
)
"""Fields of a chat request's body that are no sampling parameters, or that the run decides."""


class Draft(msgspec.Struct, frozen=True):
    """A Prompt without key and origin."""

    format: str
    id: str | int | None
    turns: Split
    tools: tuple[JSON, ...] | None = None
    sampling: JSON | None = None


def as_draft(value: object, turns: Turns) -> Draft:
    if not isinstance(value, dict):
        wrapped = isinstance(value, list) and len(cast(list[object], value)) == 1
        raise Refused("the row is a list around one row" if wrapped else "the row is not a JSON object")
    row = cast(JSON, value)
    name = _format_of(row)
    if not MEDIA_COLUMNS.isdisjoint(row):
        _refuse_media(row)
    body: JSON = row["body"] if name == "batch" else row
    messages = _with_system(body, FORMATS[name](row))
    _check_opening(messages)
    split = _every_user(messages) if name == "turns" else _last(messages) if turns == "last" else _all(messages)
    return Draft(name, _id(row), split, _tools(body), _sampling(body) if name == "batch" else None)


def drafted(record: Record, turns: Turns) -> Draft | Refused:
    """The refusal as a value, for passes that list them; a record that could not be read is one too."""
    if record.error:
        return Refused(record.error)
    try:
        return as_draft(record.value, turns)
    except Refused as refusal:
        return refusal


def _messages(row: JSON) -> list[Message]:
    return _conversation(row["messages"], "messages")


def _sharegpt(row: JSON) -> list[Message]:
    name = "conversations" if row.get("conversations") is not None else "conversation"
    return _conversation(row[name], name)


def _batch(row: JSON) -> list[Message]:
    body = row["body"]
    if not isinstance(body, dict):
        raise Refused("body is not an object")
    url = row.get("url")
    if url is not None and not str(url).rstrip("/").endswith("/chat/completions"):
        raise Refused(f"url {url!r}: only chat completions are asked")
    return _conversation(cast(JSON, body).get("messages"), "body.messages")


def _turns(row: JSON) -> list[Message]:
    turns = as_list(row["turns"], "turns")
    if not turns:
        raise Refused("turns is empty")
    return [Message("user", as_text(turn, f"turn {number}")) for number, turn in enumerate(turns, 1)]


def _prompt(row: JSON) -> list[Message]:
    prompt: object = row["prompt"]
    if isinstance(prompt, list):
        return _conversation(cast(object, prompt), "prompt")
    return [Message("user", as_text(prompt, "prompt"))]


def _question(row: JSON) -> list[Message]:
    return [Message("user", as_text(row["question"], "question"))]


def _instruction(row: JSON) -> list[Message]:
    """With its input below: in a column of its own, or in self-instruct's first instance."""
    instruction, extra = as_text(row["instruction"], "instruction"), row.get("input") or row.get("context")
    instances = row.get("instances")
    if extra is None and instances:
        first = as_list(instances, "instances")
        extra = cast(JSON, first[0]).get("input") if first and isinstance(first[0], dict) else None
    if extra is None or extra == "":
        return [Message("user", instruction)]
    if not isinstance(extra, str):
        raise Refused("input is not text")
    return [Message("user", f"{instruction}\n\n{extra}" if extra.strip() else instruction)]


FORMATS: dict[str, Callable[[JSON], list[Message]]] = {
    "messages": _messages,
    "sharegpt": _sharegpt,
    "batch": _batch,
    "turns": _turns,
    "prompt": _prompt,
    "question": _question,
    "instruction": _instruction,
}
COLUMNS = {
    "messages": "messages",
    "conversations": "sharegpt",
    "conversation": "sharegpt",
    "body": "batch",
    "turns": "turns",
    "prompt": "prompt",
    "question": "question",
    "instruction": "instruction",
}


def _format_of(row: JSON) -> str:
    for column, name in COLUMNS.items():
        if row.get(column) is not None:
            return name
    null = next((column for column in COLUMNS if column in row), None)
    if null:
        raise Refused(f"{null} is null")
    raise Refused(f"no known column among: {', '.join(map(str, list(row)[:8])) or 'none'}")


def _conversation(value: object, what: str) -> list[Message]:
    turns = as_list(value, what)
    if not turns:
        raise Refused(f"{what} is empty")
    read = (as_message(number, turn) for number, turn in enumerate(turns, 1))
    return [message for message in read if message is not None]


def _with_system(row: JSON, messages: list[Message]) -> list[Message]:
    for column in SYSTEM_COLUMNS:
        text = row.get(column)
        if text is None or text == "":
            continue
        text = as_text(text, column)
        if not messages or messages[0].role != "system":
            return [Message("system", text), *messages]
        if messages[0].content != text:
            raise Refused(f"two system prompts: column {column} and the first message")
    return messages


def _check_opening(messages: Sequence[Message]) -> None:
    if not any(message.role == "user" for message in messages):
        raise Refused("no user message")
    opener = next(message.role for message in messages if message.role != "system")
    if opener != "user":
        raise Refused(f"opens with a message of role {opener!r}, not with the user's")


def _last(messages: Sequence[Message]) -> Split:
    """One turn: all up to the last message that wants an answer. What follows it is the old answer."""
    end = max(at for at, message in enumerate(messages, 1) if message.role in ("user", "tool"))
    if any(m.role == "assistant" and not m.tool_calls and not (m.content or "").strip() for m in messages[:end]):
        raise Refused("an earlier assistant message is blank, and it would be part of the history")
    return (tuple(messages[:end]),)


def _all(messages: Sequence[Message]) -> Split:
    """A turn wherever the row has an answer, and one at the end. Calls of tools that have their results are history."""
    segments: list[tuple[Message, ...]] = []
    segment: list[Message] = []
    for at, message in enumerate(messages):
        if message.role != "assistant" or _is_answered_call(messages, at):
            segment.append(message)
        elif _wants_answer(segment):
            segments.append(tuple(segment))
            segment = []
    if _wants_answer(segment):
        segments.append(tuple(segment))
    return tuple(segments)


def _every_user(messages: Sequence[Message]) -> Split:
    """A turn per user message; a system message before it belongs to the first."""
    first = next(at for at, message in enumerate(messages) if message.role == "user") + 1
    return (tuple(messages[:first]), *((message,) for message in messages[first:]))


def _is_answered_call(messages: Sequence[Message], at: int) -> bool:
    following = messages[at + 1].role if at + 1 < len(messages) else ""
    return bool(messages[at].tool_calls) and following == "tool"


def _wants_answer(segment: Iterable[Message]) -> bool:
    return any(message.role in ("user", "tool") for message in segment)


def _refuse_media(row: JSON) -> None:
    for column in MEDIA_COLUMNS & row.keys():
        if row[column]:
            raise Refused(f"column {column}: only text can be asked")


def _id(row: JSON) -> str | int | None:
    """The first declared id. One that is neither text nor a whole number is kept as its JSON text."""
    found = next((row[column] for column in ID_COLUMNS if row.get(column) is not None), None)
    if found is None or (isinstance(found, str | int) and not isinstance(found, bool)):
        return found
    return msgspec.json.encode(found).decode()


def _tools(row: JSON) -> tuple[JSON, ...] | None:
    found = row.get("tools")
    if found is None:
        return None
    tools = as_list(found, "tools")
    if tools and not all(isinstance(tool, dict) for tool in tools):
        raise Refused("tools is not a list of objects")
    return tuple(cast(list[JSON], tools)) if tools else None


def _sampling(body: JSON) -> JSON | None:
    """A batch line's parameters, flat, under their own names."""
    if body.get("n") not in (None, 1):
        raise Refused("n is not 1: ask for several completions with --samples")
    found = {name: value for name, value in body.items() if value is not None and name not in NOT_SAMPLING}
    if "max_completion_tokens" in found:
        found["max_tokens"] = found.pop("max_completion_tokens")
    try:
        msgspec.convert({name: found[name] for name in Sampling.__struct_fields__ if name in found}, Sampling)
    except msgspec.ValidationError as error:
        raise Refused(f"body: {error}") from None
    return found or None
