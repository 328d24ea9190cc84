"""Prompts, fake servers and a sink that remembers: what the tests of the drive share."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from sevenfold.config import RunSpec, decode
from sevenfold.drive import Answer, Dispatcher, Patience
from sevenfold.engines.fake_server import FakeServer, Rule, Script
from sevenfold.types import Ask, Endpoint, Failure, Message, Origin, Prompt

HASTE = Patience(first=1.0, per_token=0.0, least=1.0, pause=0.02, longest_pause=0.1, rest=0.05, fleet=60.0)
"""The product's patience, shrunk: a hung request is given up after a second."""

QUICK = Script(latency=0.0, tokens=4, echo=True)


def spec(**sampling: Any) -> RunSpec:
    return decode({"model": "fake", "sampling": {"max_tokens": 64, **sampling}}, "a test")


def user(text: str) -> tuple[Message, ...]:
    return (Message("user", text),)


def prompt(number: int, *turns: str, **fields: Any) -> Prompt:
    texts = turns or (f"question {number}.",)
    return Prompt(f"{number:032x}", number, tuple(user(text) for text in texts), Origin("in.jsonl", number), **fields)


def ask(number: int, *turns: str, **fields: Any) -> Ask:
    row = prompt(number, *turns, **fields)
    return Ask(row, 0, 0, row.turns[0])


async def asks(count: int) -> AsyncIterator[Ask]:
    for number in range(count):
        yield ask(number)


def endpoint(url: str, replica: str = "0", slots: int = 16) -> Endpoint:
    return Endpoint(replica, url, "fake", "fake", slots)


def server(*rules: Rule, script: Script = QUICK, slots: int = 0) -> FakeServer:
    fields = {name: getattr(script, name) for name in Script.__struct_fields__}
    return FakeServer(Script(**{**fields, "rules": rules}), slots=slots)


async def until(holds: Callable[[], object]) -> None:
    """TimeoutError where it never comes to hold."""
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - what is waited for is a count that has no event
            await asyncio.sleep(0)


class Kept:
    """A sink. `then` makes follow-up asks of a batch, or raises."""

    def __init__(self, then: Callable[[list[Answer | Failure]], list[Ask]] = lambda _: []) -> None:
        self.batches: list[int] = []
        self.answers: list[Answer] = []
        self.failures: list[Failure] = []
        self._then = then

    def __call__(self, batch: list[Answer | Failure]) -> list[Ask]:
        self.batches.append(len(batch))
        self.answers += [outcome for outcome in batch if isinstance(outcome, Answer)]
        self.failures += [outcome for outcome in batch if isinstance(outcome, Failure)]
        return self._then(batch)

    @property
    def ids(self) -> list[Any]:
        return sorted([answer.ask.prompt.id for answer in self.answers] + [failure.id for failure in self.failures])


def dispatcher(sink: Kept, *endpoints: Endpoint, patience: Patience = HASTE) -> Dispatcher:
    made = Dispatcher(spec(), sink, patience=patience)
    made.set_endpoints(endpoints)
    return made
