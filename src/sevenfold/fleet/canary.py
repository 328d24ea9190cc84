"""One prompt that every server of a fleet answers: who renders, serves or thinks unlike the others is not given a row.

A server may be up, fast and wrong: another chat template, another checkpoint under the same name, a lost thinking
switch. Each shows in one short greedy answer: in the prompt as the server counted it, in its name, in whether it opens
a thought. What was rendered here decides where there is such a rendering, else what most servers say. Judging is pure.

Two servers that contradict each other and no rendering of ours: nobody can tell who is right, so the first one stays.
A thought that does not show within the budget is held against a server only where others show theirs.
"""

import os
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from sevenfold.config import Sampling
from sevenfold.engines import ENGINES
from sevenfold.engines.base import Question
from sevenfold.errors import AttemptError, RowError
from sevenfold.fleet.http import carry, identify
from sevenfold.types import JSON, Completion, Message

HOUR = 3600.0
BUDGET = 64
"""Tokens of its answer: a thought is opened by the first of them or never."""
SECONDS = 60.0
"""For one answer. On a busy server it waits in line behind whole generations."""
HOLD = 20.0
"""Seconds for which a server waits for most of the others to be compared with. Those that start together come up within
seconds of each other; on cold kernels the first one is minutes ahead and is judged again when the others come."""

Thought = Literal["yes", "no", "unseen"]


class Canary(msgspec.Struct, frozen=True):
    """The prompt, and what is expected of the answer. By default one that suits every model."""

    messages: tuple[Message, ...] = (Message("user", "Say hello."),)
    tools: tuple[JSON, ...] | None = None
    thinking: bool | None = None
    """Whether replies must think. None: as they do, but all of them alike."""
    template_kwargs: dict[str, Any] = {}
    ids: tuple[int, ...] | None = None
    """The prompt as it was rendered here; None where nobody renders here."""
    text: str | None = None
    """The text of `ids`."""
    sends_ids: bool = False
    """The prompt goes out as `ids`; else they are only compared with what the server counts."""
    every: float = HOUR
    """Seconds between two checks of a server; 0: none, not even before its first row."""


class Heard(msgspec.Struct, frozen=True):
    """What one answer shows."""

    model: str
    tokens: int = 0
    """Of the prompt, by the server's count; 0 where it does not say."""
    ids: tuple[int, ...] | None = None
    thought: Thought = "unseen"


def question(canary: Canary, model: str) -> Question:
    return Question(
        messages=canary.messages,
        model=model,
        sampling=Sampling(temperature=0.0, top_k=1, max_tokens=BUDGET, seed=0),
        thinking=canary.thinking is not False,
        request_id=secrets.token_hex(16),
        tools=canary.tools,
        template_kwargs=canary.template_kwargs,
        prompt_token_ids=canary.ids if canary.sends_ids else None,
        rendered_prompt=canary.text if canary.sends_ids else None,
    )


async def listen(url: str, engine: str, model: str, canary: Canary, api_key: str = "") -> Heard:
    """ReplicaError, AttemptError or ConfigError where it does not answer."""
    found = await identify(url, engine, model, api_key)
    if isinstance(found, str):
        raise AttemptError(f"{url} does not say what it serves: {found}", "malformed")
    if found.model != model:
        return Heard(found.model)  # it would refuse the name, or answer as somebody else
    try:
        answer = await carry(
            url, ENGINES[engine].exchange(question(canary, model)), SECONDS, os.environ.get(api_key, "")
        )
    except RowError as error:
        raise AttemptError(f"{url} refuses the canary: {error.message}", error.kind) from None
    return heard(model, answer)


def heard(model: str, answer: Completion) -> Heard:
    """An empty thought is none. An answer that the budget cut may have thoughts that no parser of the server's split
    off, so it proves nothing; one that ended by itself without a thought does."""
    ids = answer.prompt_token_ids
    thought: Thought = "yes" if answer.reasoning.strip() else "no" if answer.finish_reason == "stop" else "unseen"
    return Heard(model, len(ids) if ids else answer.usage.prompt_tokens, ids, thought)


def complaint(name: str, said: Mapping[str, Heard], model: str, canary: Canary) -> str:
    """What is wrong with the server `name` of all that were heard, in one sentence; empty where nothing is."""
    mine = said[name]
    if mine.model != model:
        return f"it serves {mine.model!r}, not {model!r}"
    peers = {peer: each for peer, each in said.items() if each.model == model}
    return _of_prompt(mine, peers, canary) or _of_thought(mine, peers, canary)


def _of_prompt(mine: Heard, peers: Mapping[str, Heard], canary: Canary) -> str:
    ours = canary.ids
    whose = "the model's own template" if ours is not None else "the others"
    tokens = len(ours) if ours is not None else _usual([each.tokens for each in peers.values() if each.tokens])
    if mine.tokens and tokens and mine.tokens != tokens:
        return f"it renders the first prompt to {mine.tokens} tokens, {whose} to {tokens}: another chat template"
    ids = ours if ours is not None else _usual([each.ids for each in peers.values() if each.ids])
    if mine.ids and ids and mine.ids != ids:
        return f"it renders the first prompt to other tokens than {whose}: another template or tokenizer"
    return ""


def _of_thought(mine: Heard, peers: Mapping[str, Heard], canary: Canary) -> str:
    if canary.thinking is False:
        return "it thinks though thinking is off: its template ignores the switch" if mine.thought == "yes" else ""
    if canary.thinking and mine.thought == "no":
        return "it answers without thinking though thinking is on: it lost its thinking switch"
    thinking = sum(each.thought == "yes" for each in peers.values())
    if mine.thought != "yes" and thinking and 2 * thinking >= len(peers):
        return f"it shows no thought within {BUDGET} tokens, the others do: it lost its thinking switch"
    if canary.thinking is None and mine.thought == "yes" and 2 * thinking < len(peers):
        return "it thinks, the others do not: another template or model"
    return ""


def _usual(values: list[Any]) -> Any:
    """The most frequent, of equals the first; None where there is none."""
    return Counter(values).most_common(1)[0][0] if values else None


class Panel:
    """What the servers of one fleet said, and who may still say something."""

    def __init__(self, names: Iterable[str], model: str, canary: Canary) -> None:
        self.canary, self._model = canary, model
        self._living = set(names)
        self._said: dict[str, Heard] = {}

    def hears(self, name: str, heard: Heard) -> None:
        """The latest stands last: of two that contradict each other, the one that changed is wrong."""
        self._living.add(name)
        self._said.pop(name, None)
        self._said[name] = heard

    def forgets(self, name: str, for_good: bool = False) -> None:
        """Its process ended. `for_good`: nobody waits for it."""
        self._said.pop(name, None)
        if for_good:
            self._living.discard(name)

    @property
    def is_settled(self) -> bool:
        """Whether more than half of all agree, or all have spoken."""
        agree = max(Counter(self._said.values()).values(), default=0)
        return 2 * agree > len(self._living) or len(self._said) >= len(self._living)

    def complaint(self, name: str) -> str:
        """Empty where it was not heard, or nothing is wrong with it."""
        return complaint(name, self._said, self._model, self.canary) if name in self._said else ""
