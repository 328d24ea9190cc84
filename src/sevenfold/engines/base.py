"""What sevenfold must know of an engine: how to start, ask and read it, how to explain its death. No I/O, no clock.

Add an engine in one file: a class with these answers, one entry in `engines.ENGINES`, recorded replies and logs under
tests/engines/, and a test that feeds them as strings.

Asking is an *exchange*: a generator that yields HTTP requests, is sent their replies, and returns the Completion. Most
engines need one request; llama.cpp renders, tokenises and generates in three. The drive carries the bytes.
"""

from collections.abc import Generator
from typing import Any, Protocol

import msgspec

from sevenfold.config import Sampling
from sevenfold.errors import AttemptError, ConfigError, ReplicaError, RowError
from sevenfold.types import JSON, Completion, Message, is_object


class Serve(msgspec.Struct, frozen=True):
    """One replica to start."""

    model: str
    """Path of the model on this machine."""
    model_name: str
    """The name that requests and replies carry."""
    port: int
    gpu: str | None
    """Its entry of CUDA_VISIBLE_DEVICES, unchanged; None on a machine without GPUs."""
    threads: int
    """CPU threads it may use."""
    slots: int
    context: int
    """Tokens per request, prompt and completion together."""
    python: str
    flags: dict[str, str | int | float | bool] = {}
    env: dict[str, str] = {}
    """What the user adds to its environment."""


class Command(msgspec.Struct, frozen=True):
    """argv, and what to add to the environment."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}


class Request(msgspec.Struct, frozen=True):
    """`body` None: GET."""

    path: str
    body: bytes | None = None


class Reply(msgspec.Struct, frozen=True):
    """One HTTP reply, whole. Header names in lower case."""

    status: int
    body: bytes
    headers: dict[str, str] = {}


class Question(msgspec.Struct, frozen=True):
    """What to ask, in terms every engine understands."""

    messages: tuple[Message, ...]
    model: str
    sampling: Sampling
    thinking: bool
    request_id: str
    """32 hex digits, unique per attempt: some engines abort by prefix of it."""
    tools: tuple[JSON, ...] | None = None
    template_kwargs: dict[str, Any] = {}
    prompt_token_ids: tuple[int, ...] | None = None
    """The prompt, rendered and tokenized already, every id inside the vocabulary; None: the engine renders."""
    rendered_prompt: str | None = None
    """The text of `prompt_token_ids`."""
    end_tokens: dict[int, str] = {}
    """Ids that end a completion, and their text; empty where nobody knows them."""


class Identity(msgspec.Struct, frozen=True):
    """What a server says it is."""

    model: str
    slots: int | None = None
    context: int | None = None
    """Tokens per request."""
    template: str | None = None
    version: str = ""
    kv_tokens: int | None = None
    """Tokens that its KV cache holds."""


class Load(msgspec.Struct, frozen=True):
    """What /metrics tells; None means unknown, never zero."""

    tokens: int | None = None
    """Generated since start; only ever grows."""
    running: int | None = None
    queued: int | None = None


class Diagnosis(msgspec.Struct, frozen=True):
    """Why a replica died, in one sentence, and what helps."""

    cause: str
    remedy: str
    retry: bool = True
    """False where starting it again would end the same way."""


Exchange = Generator[Request, Reply, Completion]
Inquiry = Generator[Request, Reply, Identity]


class Engine(Protocol):
    name: str
    ready_path: str
    """Answers 200 once the model is loaded; the first completion is what really proves readiness."""
    metrics_path: str | None

    def command(self, serve: Serve) -> Command: ...
    def identify(self) -> Inquiry: ...
    def exchange(self, question: Question) -> Exchange: ...
    def load(self, metrics: str) -> Load: ...
    def diagnose(self, log_tail: str) -> Diagnosis | None: ...


def retry_after(reply: Reply) -> float | None:
    """Seconds of a Retry-After header, where it is a number."""
    try:
        return max(0.0, float(reply.headers["retry-after"]))
    except (KeyError, ValueError):
        return None


def check_status(reply: Reply) -> None:
    """Nothing on 2xx, else the error that says who must act (fault matrix: busy, fatal, row, unclear)."""
    status = reply.status
    if 200 <= status < 300:
        return
    said = brief(reply.body)
    if status in (408, 425, 429, 502, 503, 504):
        raise ReplicaError(f"HTTP {status}: {said}", "busy", retry_after(reply))
    if status in (401, 403):
        raise ConfigError(f"the endpoint refuses our key (HTTP {status}): {said}", "set fleet.api_key to the variable")
    if status in (404, 405):
        raise ConfigError(f"the endpoint does not serve this (HTTP {status}): {said}", "check --model and --endpoint")
    if 400 <= status < 500:
        raise RowError(f"HTTP {status}: {said}", "too_long" if _is_too_long(said) else "bad_request")
    raise AttemptError(f"HTTP {status}: {said}", "server_error")


def decode(reply: Reply) -> JSON:
    """The reply's JSON object. AttemptError where it is not one."""
    check_status(reply)
    try:
        return msgspec.json.decode(reply.body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise AttemptError(f"a reply that is not a JSON object: {brief(reply.body)}", "malformed") from None


def brief(body: bytes) -> str:
    """The first words of a body, the message itself where it is an error in JSON, for one line of text."""
    text = body[:2000].decode("utf-8", "replace")
    try:
        value = msgspec.json.decode(body)
        error = value.get("error", value)
        text = str(error.get("message", text) if is_object(error) else error)
    except (msgspec.DecodeError, AttributeError, UnicodeDecodeError):
        pass
    return " ".join(text.split())[:300]


def split_reasoning(text: str, opened: bool) -> tuple[str, str]:
    """(reasoning, answer) of raw model text. `opened`: the prompt ended with the opening tag already.

    An unclosed thought is all reasoning. Text without tags, where none was opened, is all answer."""
    body = text.lstrip()
    if body.startswith("<think>"):
        body, opened = body[len("<think>") :], True
    elif opened:
        body = text
    if not opened:
        return "", text
    thought, closed, answer = body.partition("</think>")
    return thought.strip("\n"), answer.lstrip("\n") if closed else ""


def _is_too_long(said: str) -> bool:
    words = said.lower()
    return any(sign in words for sign in ("context", "too long", "longer than", "exceed", "maximum length"))
