"""A chat template, rendered as Hugging Face's `apply_chat_template` does, in Jinja's immutable sandbox.

A template is a program that came with a model: the sandbox gives it messages and nothing else (CVE-2024-34359). It may
call `raise_exception`, `strftime_now` and the filter `tojson`, which the documentation of transformers promises.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sevenfold.errors import ConfigError, RowError
from sevenfold.types import JSON, Message, is_object


class Generation(Extension):
    """`{% generation %}` marks what the assistant said; for rendering it is transparent."""

    tags = {"generation"}  # noqa: RUF012 (jinja reads the class attribute)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class Template:
    """ConfigError where the text is no template."""

    def __init__(self, text: str, special: dict[str, str] | None = None) -> None:
        """`special`: the tokenizer's named tokens (`bos_token`, ...), which templates use by name."""
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
        )
        environment.filters["tojson"] = _tojson
        environment.globals.update(GIVEN)
        self._special = special or {}
        try:
            self._template = environment.from_string(text)
        except TemplateError as error:
            raise ConfigError(f"the chat template cannot be read: {error}") from None
        self.text = text
        self.uses_clock = "strftime_now" in text

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[JSON] | None = None,
        kwargs: JSON | None = None,
        generate: bool = True,
    ) -> str:
        """The text, with `generate` up to where the model goes on. RowError where the template refuses the row."""
        given = {**self._special, **(kwargs or {})}
        try:
            return self._template.render(
                messages=[as_json(message) for message in messages],
                tools=list(tools) if tools else None,
                add_generation_prompt=generate,
                **given,
            )
        except (TemplateError, TypeError, ValueError, AttributeError, KeyError) as error:
            raise RowError(f"the chat template refuses this conversation: {error}", "template") from None


def as_json(message: Message) -> JSON:
    """A message as templates expect it: absent fields absent, thoughts as `reasoning_content`, arguments as objects."""
    value: JSON = {"role": message.role, "content": message.content if message.content is not None else ""}
    if message.reasoning:
        value["reasoning_content"] = message.reasoning
    if message.tool_calls:
        value["tool_calls"] = [_call(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        value["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        value["name"] = message.name
    return value


def _call(call: JSON) -> JSON:
    """Arguments given as a JSON string become the object they stand for: templates print either, but not both alike."""
    function: Any = call.get("function")
    if not is_object(function) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        return call
    return {**call, "function": {**function, "arguments": arguments}}


def _tojson(value: Any, ensure_ascii: bool = False, indent: int | None = None, **others: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **others)


def _refuse(message: str) -> None:
    raise TemplateError(message)


def _now(form: str) -> str:
    return datetime.now().strftime(form)


GIVEN: JSON = {"raise_exception": _refuse, "strftime_now": _now}
