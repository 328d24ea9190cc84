"""One message of a conversation as people write it, read into a Message; or Refused with the reason. Pure."""

from typing import cast

import msgspec

from sevenfold.types import JSON, Message

ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bard": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
    "observation": "tool",
}
"""Who speaks, under the names in use. Any other is refused: a wrong guess drops a user's words."""


class Refused(Exception):
    """This row cannot be asked. `reason` is one line for the user."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def as_message(number: int, value: object) -> Message | None:
    """`number` counts from 1, for the reason. None for a blank system message, which says nothing."""
    if not isinstance(value, dict):
        raise Refused(f"message {number} is not an object")
    turn = cast(JSON, value)
    role = _role(number, turn)
    content = turn.get("content")
    if content is None:
        content = turn.get("value")
    if role == "user":
        return Message("user", as_text(content, f"message {number}"), name=_optional(turn, "name", number))
    if content is not None and not isinstance(content, str):
        content = _joined(content, f"message {number}")
    if role == "system":
        return Message("system", content) if content and content.strip() else None
    if role == "tool":
        name, call = _optional(turn, "name", number), _optional(turn, "tool_call_id", number)
        return Message("tool", content or "", tool_call_id=call, name=name)
    calls, reasoning = turn.get("tool_calls"), turn.get("reasoning_content")
    return Message(
        "assistant",
        content,
        reasoning=reasoning if isinstance(reasoning, str) else _optional(turn, "reasoning", number),
        tool_calls=_calls(calls, f"message {number}") if calls else None,
    )


def as_text(content: object, what: str) -> str:
    """The text of a string or of a list of text parts. Refused where it is blank or anything else."""
    text = content if isinstance(content, str) else _joined(content, what)
    if not text.strip():
        raise Refused(f"{what} is blank")
    return text


def as_list(value: object, what: str) -> list[object] | None:
    """A list, also where it is kept as a JSON string. None for a blank string."""
    if isinstance(value, str):
        if not value.strip():
            return None
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            raise Refused(f"{what} is text that is not JSON") from None
    if not isinstance(value, list):
        raise Refused(f"{what} is not a list")
    return cast(list[object], value)


def _role(number: int, turn: JSON) -> str:
    said = turn.get("role") or turn.get("from")
    if not said or not isinstance(said, str):
        raise Refused(f"message {number} has no role")
    role = ROLES.get(said) or ROLES.get(said.strip().casefold())
    if role is None:
        raise Refused(f"message {number} has the unknown role {said!r}")
    return role


def _joined(content: object, what: str) -> str:
    if content is None:
        raise Refused(f"{what} has no content")
    if not isinstance(content, list):
        raise Refused(f"{what} is neither text nor a list of text parts")
    return "".join(_part(part, what) for part in cast(list[object], content))


def _part(part: object, what: str) -> str:
    if isinstance(part, str):
        return part
    fields = cast(JSON, part) if isinstance(part, dict) else {}
    text = fields.get("text")
    if fields.get("type", "text") != "text" or not isinstance(text, str):
        raise Refused(f"{what} has a part of type {fields.get('type', 'unknown')!r}: only text can be asked")
    return text


def _calls(value: object, what: str) -> tuple[JSON, ...]:
    calls: list[JSON] = []
    for call in as_list(value, f"{what}: tool_calls") or ():
        fields = cast(JSON, call) if isinstance(call, dict) else {}
        function = fields.get("function")
        if not isinstance(function, dict):
            raise Refused(f"{what} has a tool call without a function")
        named = cast(JSON, function)
        calls.append({**fields, "function": {**named, "arguments": _arguments(named.get("arguments"), what)}})
    return tuple(calls)


def _arguments(value: object, what: str) -> str:
    """As the chat API writes them: an object's JSON text, its keys in the order given, since templates print them so.
    Both spellings come out the same, so both have one key."""
    try:
        found = msgspec.json.decode(value) if isinstance(value, str) else value
    except (msgspec.DecodeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Refused(f"{what} has a tool call whose arguments are not a JSON object")
    return msgspec.json.encode(found).decode()


def _optional(turn: JSON, field: str, number: int) -> str | None:
    value = turn.get(field)
    if value is not None and not isinstance(value, str):
        raise Refused(f"message {number}: {field} is not text")
    return value or None
