"""The nouns. Frozen, slotted, and their own record format: msgspec writes them to the ledger as they stand.

One row's identity is `(key, sample, turn)`: the prompt's key, which of its n samples, which turn of the conversation.
Every such triple of a run ends in exactly one Outcome.
"""

from typing import Any, Literal, TypeGuard

import msgspec

JSON = dict[str, Any]
"""A JSON object at the wire. It never crosses a room as more than a payload."""


def is_object(value: Any) -> TypeGuard[JSON]:
    """Whether a decoded JSON value is an object."""
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """Whether a decoded JSON value is an array."""
    return isinstance(value, list)


FinishReason = Literal["stop", "length", "tool_calls", "abort", "error"]


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of a conversation, as the chat templates know it."""

    role: str
    content: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[JSON, ...] | None = None
    tool_call_id: str | None = None
    name: str | None = None


class Origin(msgspec.Struct, frozen=True):
    """Where a row came from. `line` counts from 1: a line of JSONL, a row of Parquet, an element of a JSON array."""

    file: str
    line: int


class Prompt(msgspec.Struct, frozen=True, omit_defaults=True):
    """One accepted input row.

    `turns[k]` holds the messages to append before completion k is asked: one turn for a single question, several where
    the assistant's turns are regenerated in order.
    """

    key: str
    """32 hex digits from the row's content, declared id and count among exact twins; nothing else goes in."""
    id: str | int | None
    turns: tuple[tuple[Message, ...], ...]
    origin: Origin
    tools: tuple[JSON, ...] | None = None
    sampling: JSON | None = None
    """Parameters this row brought along (an OpenAI batch line's body); they override the run's."""


class Ask(msgspec.Struct, frozen=True):
    """One question to one replica: the messages so far, for one turn of one sample of one prompt."""

    prompt: Prompt
    sample: int
    turn: int
    messages: tuple[Message, ...]

    @property
    def row(self) -> tuple[str, int, int]:
        return self.prompt.key, self.sample, self.turn


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens as the engine counted them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None


class Completion(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came back from one request."""

    answer: str
    reasoning: str
    finish_reason: FinishReason
    usage: Usage
    model: str = ""
    prompt_token_ids: tuple[int, ...] | None = None
    completion_token_ids: tuple[int, ...] | None = None
    """As the engine sampled them, end token included; None where the engine tells text only."""
    tool_calls: tuple[JSON, ...] | None = None
    acceptance_length: float | None = None
    """Tokens per verification step of speculative decoding; None without it."""
    rendered_prompt: str | None = None


class Sample(msgspec.Struct, frozen=True, tag="sample", omit_defaults=True):
    """A prompt, its completion and the verdict: a row of training data."""

    key: str
    id: str | int | None
    sample: int
    turn: int
    turns: int
    """How many turns the conversation has: the row is whole when turn == turns - 1."""
    messages: tuple[Message, ...]
    completion: Completion
    origin: Origin
    flags: tuple[str, ...] = ()
    """Names of the checks that spoke, gravest first."""
    replica: str = ""
    attempts: int = 1
    seconds: float = 0.0
    thinking: bool = True
    """Whether thinking was asked for."""
    tools: tuple[JSON, ...] | None = None

    @property
    def verdict(self) -> str:
        return self.flags[0] if self.flags else "ok"


class Failure(msgspec.Struct, frozen=True, tag="failure", omit_defaults=True):
    """A prompt that will not get a completion, and why."""

    key: str
    id: str | int | None
    sample: int
    turn: int
    turns: int
    kind: str
    """A short stable word: 'bad_request', 'too_long', 'timeout', 'server_error', 'malformed', 'no_replica'."""
    reason: str
    origin: Origin
    permanent: bool
    """False where another day may bring another answer: `resume` asks those again."""
    replica: str = ""
    attempts: int = 1


Outcome = Sample | Failure


class Endpoint(msgspec.Struct, frozen=True):
    """The URL and model of a ready replica, whoever started it."""

    replica: str
    """Its name in the fleet: '0', '1', ... or the URL where it was started elsewhere."""
    url: str
    model: str
    engine: str
    slots: int
    """Requests it runs at once; more wait in its own queue. 0: nothing new, what is in flight may end."""


ReplicaPhase = Literal[
    "starting", "warming", "ready", "suspect", "draining", "backoff", "failed", "stopped", "external"
]
"""'warming': it answers its first requests. 'suspect': it works as far as anybody knows, but nothing moves.
'draining': it is about to be stopped and gets nothing new."""


class ReplicaStatus(msgspec.Struct, frozen=True):
    """One replica as its supervisor sees it."""

    name: str
    phase: ReplicaPhase
    url: str
    model: str
    engine: str
    slots: int
    pid: int | None = None
    gpu: str | None = None
    since: float = 0.0
    """Unix seconds at which this phase began."""
    restarts: int = 0
    reason: str = ""
    """Why it is not ready, in one sentence, with the remedy where one is known."""
    progress: str = ""
    """The last telling line of its log while it starts."""
    started: float = 0.0
    """When its process started, by the kernel's count: pid and this together are one process."""
    runs: int | None = None
    """Requests it runs at once by its own account; `slots` is what is sent to it."""
    kv_tokens: int | None = None
    """Tokens that its KV cache holds, by its own account."""
    planned_runs: int | None = None
    """What the plan said of `runs`; None where nothing was planned."""
    planned_kv_tokens: int | None = None
    slow: str = ""
    """How far it stays behind the others, in one sentence; empty where it does not."""

    @property
    def plan_and_got(self) -> str:
        """Empty where nothing was planned, or the server does not say."""
        if self.planned_runs is None or self.runs is None:
            return ""
        if self.planned_kv_tokens is None or self.kv_tokens is None:
            return f"plan {self.planned_runs} running; got {self.runs}"
        plan = f"plan {self.planned_runs} running, {self.planned_kv_tokens:,} KV tokens"
        return f"{plan}; got {self.runs}, {self.kv_tokens:,}"

    @property
    def is_off_plan(self) -> bool:
        """Other running requests, or KV tokens off by more than 5 %: what plans are held to against real servers."""
        if self.plan_and_got == "":
            return False
        if self.planned_runs != self.runs:
            return True
        plan, got = self.planned_kv_tokens, self.kv_tokens
        return plan is not None and got is not None and abs(got - plan) > 0.05 * plan

    @property
    def warning(self) -> str:
        """What its own account says against the plan; empty where nothing."""
        said: list[str] = []
        if self.runs is not None and self.slots > self.runs:
            waits = self.slots - self.runs
            said.append(
                f"{self.slots} in flight, the server runs {self.runs}: {waits} of {self.slots} wait in its queue"
            )
        if self.is_off_plan:
            said.append(f"not as planned: {self.plan_and_got}")
        return "; ".join(said + ([self.slow] if self.slow else []))


class FleetStatus(msgspec.Struct, frozen=True):
    """What the supervisor publishes, whole, at every change."""

    supervisor: int
    """Its process id; 0 where no process of ours supervises (external endpoints)."""
    at: float
    replicas: tuple[ReplicaStatus, ...]
    ended: str = ""
    """Why the supervisor gave up, empty while it works."""

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """A draining one has no slots: it keeps what it has and gets nothing new."""
        # A suspect one may only be busy: to take its requests away would be a mass abort, which kills some engines.
        ready = (r for r in self.replicas if r.phase in ("ready", "suspect", "draining"))
        return tuple(Endpoint(r.name, r.url, r.model, r.engine, 0 if r.phase == "draining" else r.slots) for r in ready)
