"""The fleet's own questions to a server: is it up, what does it serve, does it answer. One connection each.

An engine's generator says what to ask; here the bytes are carried, under one deadline for the whole talk.
"""

import asyncio
import os
from collections.abc import Generator
from typing import TypeVar

import aiohttp
import msgspec

from sevenfold.engines import ENGINES
from sevenfold.engines.base import Identity, Reply, Request
from sevenfold.errors import AttemptError, ConfigError, ReplicaError
from sevenfold.types import Endpoint

T = TypeVar("T")

PATIENCE = 10.0
"""Seconds for a server to say what it is: it has loaded its model already, and only looks things up."""
HEALTH = 25.0
"""Seconds for a health path: SGLang's generates a token and gives up by itself after 20. An earlier end would leave the
probe in its queue, one more each time."""


async def carry(url: str, talk: Generator[Request, Reply, T], seconds: float, key: str = "") -> T:
    """What the talk returns. ReplicaError where nobody answers, AttemptError where it takes longer than `seconds`."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    connector = aiohttp.TCPConnector(force_close=True)
    timeout = aiohttp.ClientTimeout(total=None)
    try:
        async with (
            asyncio.timeout(seconds),
            aiohttp.ClientSession(connector=connector, timeout=timeout, headers=headers) as session,
        ):
            request = next(talk)
            while True:
                reply = await _send(session, url, request)
                try:
                    request = talk.send(reply)
                except StopIteration as ended:
                    return ended.value
    except TimeoutError:
        raise AttemptError(f"{url}: no answer within {seconds:.0f} s", "timeout") from None
    except (aiohttp.ClientError, OSError) as error:
        raise ReplicaError(f"{url}: {error or type(error).__name__}", "lost") from None


async def is_up(url: str, path: str) -> bool:
    """Whether `path` answers 200 now."""

    def look() -> Generator[Request, Reply, bool]:
        return (yield Request(path)).status == 200

    try:
        return await carry(url, look(), HEALTH)
    except (ReplicaError, AttemptError):
        return False


async def identify(url: str, engine: str, model: str = "", api_key: str = "") -> Identity | str:
    """What the server at `url` is, or why it does not say. `model`: the one to take where it serves several.
    `api_key`: the variable that holds its key.

    ConfigError where it refuses us."""
    try:
        found = await carry(url, ENGINES[engine].identify(), PATIENCE, os.environ.get(api_key, ""))
    except (ReplicaError, AttemptError) as error:
        return error.message
    if found.model:
        return found
    return msgspec.structs.replace(found, model=model) if model else "it serves several models: name one with --model"


async def describe(endpoint: Endpoint) -> Identity:
    """What a ready replica is. ConfigError where it does not say."""
    found = await identify(endpoint.url, endpoint.engine, endpoint.model)
    if isinstance(found, str):
        raise ConfigError(f"{endpoint.url} does not say what it serves: {found}", "see the server's log")
    return found


async def _send(session: aiohttp.ClientSession, url: str, request: Request) -> Reply:
    method = "GET" if request.body is None else "POST"
    headers = {} if request.body is None else {"Content-Type": "application/json"}
    async with session.request(method, url.rstrip("/") + request.path, data=request.body, headers=headers) as response:
        body = await response.read()
        return Reply(response.status, body, {name.lower(): value for name, value in response.headers.items()})
