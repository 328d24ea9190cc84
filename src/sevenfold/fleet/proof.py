"""What makes a replica ready: our own child listens on its port, serves the model under its name, and has answered.

Several completions, one alone and then many at once: an engine compiles kernels for its first prompt and again for its
first full batch, and no row shall wait for that.
"""

import asyncio

import msgspec

from sevenfold.config import Sampling
from sevenfold.engines.base import Engine, Identity, Question
from sevenfold.errors import ConfigError
from sevenfold.fleet.http import carry, identify
from sevenfold.node import process
from sevenfold.node.ports import holder
from sevenfold.types import Message

FIRST_ANSWER = 300.0
"""Seconds for one completion: engines compile kernels for their first request, 91 s were seen."""
BATCH = 32
"""Completions at once for an engine that compiles for batches: the size whose first run was seen to stall."""
HELLO = Question(
    messages=(Message("user", "Say hello."),),
    model="",
    sampling=Sampling(temperature=0.0, top_k=1, max_tokens=8, seed=0),
    thinking=False,
    request_id="0" * 32,
)


def hello(model: str, number: int = 0) -> Question:
    """Short questions, each of another length: a server computes for the lengths that it has seen."""
    said = " ".join(["Say hello.", *["Then say it again."] * (4 * number)])
    return msgspec.structs.replace(HELLO, model=model, messages=(Message("user", said),), request_id=f"{number:032x}")


async def introduced(url: str, engine: Engine, leader: process.Identity, wanted: str) -> Identity | str:
    """Who answers at `url`, or why it does not say yet. ConfigError where another program or another model does."""
    port = int(url.rpartition(":")[2])
    listener = await asyncio.to_thread(holder, port)
    if listener is not None and not process.leads(leader, listener):
        raise ConfigError(f"process {listener}, not the replica, listens on {url}", "set fleet.base_port")
    found = await identify(url, engine.name, wanted)
    if not isinstance(found, str) and found.model != wanted:
        raise ConfigError(f"{url} serves {found.model!r}, not {wanted!r}", "stop the other server")
    return found


async def warm(url: str, engine: Engine, model: str, batch: int) -> None:
    """ReplicaError or AttemptError where it does not answer all."""
    await carry(url, engine.exchange(hello(model)), FIRST_ANSWER)
    questions = [hello(model, number) for number in range(1, batch + 1)]
    answers = (carry(url, engine.exchange(question), FIRST_ANSWER) for question in questions)
    done = await asyncio.gather(*answers, return_exceptions=True)
    for failed in done:
        if isinstance(failed, BaseException):
            raise failed
