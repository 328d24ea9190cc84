"""Any server with an OpenAI chat API that somebody else started: one request, text in, text out.

Token ids are kept where the server tells them. A thought inside the content is split off; what the reply calls it
(`reasoning_content`, `reasoning`) does not matter. It knows nothing of the program behind the URL.
"""

from typing import Any

import msgspec

from sevenfold.engines.base import (
    Command,
    Diagnosis,
    Exchange,
    Identity,
    Inquiry,
    Load,
    Question,
    Reply,
    Request,
    Serve,
    brief,
    check_status,
    split_reasoning,
)
from sevenfold.errors import AttemptError, ConfigError, RowError
from sevenfold.types import JSON, Completion, FinishReason, Message, Usage

FINISH: dict[str | None, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
}


class _Message(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[JSON, ...] | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None
    token_ids: tuple[int, ...] | None = None


class _Details(msgspec.Struct):
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class _Chat(msgspec.Struct):
    choices: tuple[_Choice, ...]
    model: str | None = None
    usage: _Usage | None = None
    prompt_token_ids: tuple[int, ...] | None = None


class _Model(msgspec.Struct):
    id: str
    max_model_len: int | None = None


class _Models(msgspec.Struct):
    data: tuple[_Model, ...]


CHAT = msgspec.json.Decoder(_Chat)
MODELS = msgspec.json.Decoder(_Models)


class OpenAI:
    name = "openai"
    ready_path = "/v1/models"
    metrics_path: str | None = None

    def command(self, serve: Serve) -> Command:
        raise ConfigError(f"engine {self.name!r} is not started by us", "name servers that run already with --endpoint")

    def identify(self) -> Inquiry:
        """The first model in the server's list: the base model, where adapters are listed too."""
        models = _decode((yield Request("/v1/models")), MODELS).data
        if not models:
            raise AttemptError("the server lists no model", "malformed")
        return Identity(model=models[0].id, context=models[0].max_model_len)

    def exchange(self, question: Question) -> Exchange:
        reply = yield Request("/v1/chat/completions", msgspec.json.encode(_body(question)))
        return _completion(_decode(reply, CHAT), reply, question)

    def load(self, metrics: str) -> Load:
        return Load()

    def diagnose(self, log_tail: str) -> Diagnosis | None:
        return None


def _body(question: Question) -> JSON:
    """Every sampling parameter is sent: what is left out comes from the model's generation_config in some engines."""
    sampling = question.sampling
    body: JSON = {
        "model": question.model,
        "messages": [_message(message) for message in question.messages],
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k if sampling.top_k > 0 else -1,
        "min_p": sampling.min_p,
        "chat_template_kwargs": {"enable_thinking": question.thinking, **question.template_kwargs},
    }
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    if question.tools:
        body["tools"] = question.tools
    return {**body, **sampling.extra}


def _message(message: Message) -> JSON:
    sent: JSON = {"role": message.role, "content": message.content}
    if message.reasoning is not None:
        sent["reasoning_content"] = message.reasoning  # whether history keeps its thoughts is for the template to say
    if message.tool_calls:
        sent["tool_calls"] = message.tool_calls
    if message.tool_call_id is not None:
        sent["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        sent["name"] = message.name
    return sent


def _decode(reply: Reply, decoder: "msgspec.json.Decoder[Any]") -> Any:
    check_status(reply)
    try:
        return decoder.decode(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        said = brief(reply.body) or f"nothing (HTTP {reply.status})"
        raise AttemptError(f"not the reply that was promised ({error}): {said}", "malformed") from None


def _completion(chat: _Chat, reply: Reply, question: Question) -> Completion:
    if not chat.choices:
        raise AttemptError(f"a reply without choices: {brief(reply.body)}", "malformed")
    choice, usage = chat.choices[0], chat.usage or _Usage()
    message = choice.message
    content = message.content or ""
    reasoning = message.reasoning_content or message.reasoning or ""
    if not reasoning:
        reasoning, content = _split(content, question.thinking)
    completion_details = usage.completion_tokens_details or _Details()
    return Completion(
        answer=content,
        reasoning=reasoning,
        finish_reason=_finish(choice.finish_reason),
        usage=Usage(
            prompt_tokens=usage.prompt_tokens or 0,
            completion_tokens=usage.completion_tokens or 0,
            reasoning_tokens=completion_details.reasoning_tokens or usage.reasoning_tokens,
            cached_tokens=(usage.prompt_tokens_details or _Details()).cached_tokens,
        ),
        model=chat.model or "",
        prompt_token_ids=chat.prompt_token_ids,
        completion_token_ids=choice.token_ids,
        tool_calls=message.tool_calls or None,
    )


def _finish(said: str | None) -> FinishReason:
    if said in FINISH:
        return FINISH[said]
    if said == "content_filter":
        raise RowError("the server's content filter cut the reply", "content_filter")
    if said in ("abort", "error"):
        raise AttemptError(f"the server gave the request up (finish_reason {said})", "abort")
    raise AttemptError(f"an unknown finish_reason: {said!r}", "malformed")


def _split(content: str, thinking: bool) -> tuple[str, str]:
    # Some templates open the thought in the prompt: where no parser works, the reply holds the closing tag alone.
    before, closed, _ = content.partition("</think>")
    return split_reasoning(content, opened=bool(closed) and thinking and "<think>" not in before)
