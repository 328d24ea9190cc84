"""The wire: carries an engine's exchange to an endpoint. Every ending is a Completion or one of our errors.

Nothing is asked twice behind anyone's back, and a request that is given up closes its connection, so that the engine
stops writing. It knows nothing of rows, retries and other endpoints.
"""

import asyncio
import io
import os
from functools import lru_cache

import aiohttp
from yarl import URL

from sevenfold.engines.base import Engine, Question, Reply, Request
from sevenfold.errors import AttemptError, ConfigError, ReplicaError
from sevenfold.types import Completion, Endpoint

KEEP_ALIVE = 4.0
"""Seconds an idle connection is kept. uvicorn closes its end after 5: a request on its way then would be lost."""

CONNECT = 10.0
"""Seconds to be let in. Who has a port open answers at once; a machine that is gone does not answer at all."""

LARGE = 1 << 20
"""Bytes from which a body is written piece by piece, so that other requests are not held up."""


def open_session(api_key: str) -> aiohttp.ClientSession:
    """`api_key` names the environment variable that holds the key; empty: none is sent."""
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "sevenfold"}
    if api_key:
        key = os.environ.get(api_key, "").strip()
        if not key:
            raise ConfigError(f"fleet.api_key names {api_key}, which is not set", f"export {api_key}=...")
        headers["Authorization"] = f"Bearer {key}"
    return aiohttp.ClientSession(
        headers=headers,
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT),
        cookie_jar=aiohttp.DummyCookieJar(),
    )


async def complete(
    session: aiohttp.ClientSession, endpoint: Endpoint, engine: Engine, question: Question, seconds: float
) -> Completion:
    """`seconds`: for the whole exchange."""
    exchange = engine.exchange(question)
    try:
        async with asyncio.timeout(seconds):
            request = next(exchange)
            while True:
                request = exchange.send(await _carry(session, endpoint.url, request))
    except StopIteration as end:
        return end.value
    except TimeoutError:
        raise AttemptError(f"no answer within {seconds:.0f} s", "timeout") from None


async def _carry(session: aiohttp.ClientSession, url: str, request: Request) -> Reply:
    body = request.body
    data = io.BytesIO(body) if body is not None and len(body) >= LARGE else body
    try:
        reply = await session.request(
            "GET" if body is None else "POST", _address(url, request.path), data=data, allow_redirects=False
        )
        said = await reply.read()
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise ReplicaError(f"{url} lets nobody in: {error}", "refused") from None
    except aiohttp.ClientResponseError as error:
        raise AttemptError(f"{url} does not speak HTTP: {' '.join(error.message.split())}", "malformed") from None
    except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError):
        raise ConfigError(f"{url!r} is not a URL", "write it as http://HOST:PORT") from None
    except (aiohttp.ClientError, ConnectionError) as error:
        raise ReplicaError(f"{url} cut the connection: {error or type(error).__name__}", "lost") from None
    headers = {} if reply.status == 200 else {name.lower(): value for name, value in reply.headers.items()}
    return Reply(reply.status, said, headers)


@lru_cache(maxsize=4096)
def _address(url: str, path: str) -> URL:
    """`url` may end in /v1, as the OpenAI clients want it, or not."""
    return URL(url.rstrip("/").removesuffix("/v1") + path)
