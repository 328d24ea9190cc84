import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from sevenfold.drive.question import question
from sevenfold.drive.wire import LARGE, complete, open_session
from sevenfold.engines import ENGINES
from sevenfold.engines.base import Question
from sevenfold.engines.fake_server import Rule, digest, serving
from sevenfold.errors import AttemptError, ConfigError, ReplicaError, RequestError, RowError, SevenfoldError
from sevenfold.types import Completion, Endpoint
from tests.drive.house import ask, endpoint, server, spec, until


def asked(number: int = 1, text: str = "") -> Question:
    return question(ask(number, text) if text else ask(number), spec(), "fake")


async def carry(to: Endpoint, what: Question, seconds: float = 30.0) -> Completion:
    async with open_session("") as session:
        return await complete(session, to, ENGINES[to.engine], what, seconds)


def ending(*rules: Rule, seconds: float = 30.0) -> SevenfoldError:
    with pytest.raises(SevenfoldError) as caught:
        # The server is made inside the loop, as its semaphore and clock belong to it.
        asyncio.run(_against(rules, seconds))
    return caught.value


async def _against(rules: tuple[Rule, ...], seconds: float) -> Completion:
    async with serving(server(*rules)) as url:
        return await carry(endpoint(url), asked(), seconds)


@asynccontextmanager
async def raw(reply: bytes) -> AsyncGenerator[str]:
    """A server that sends these bytes, whatever is asked, and closes."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        writer.close()

    async with await asyncio.start_server(speak, "127.0.0.1", 0) as listening:
        host, port = listening.sockets[0].getsockname()
        yield f"http://{host}:{port}"


def told(reply: bytes) -> RequestError:
    async def main() -> Completion:
        async with raw(reply) as url:
            return await carry(endpoint(url), asked())

    with pytest.raises(RequestError) as caught:
        asyncio.run(main())
    return caught.value


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
def test_the_url_may_end_as_openai_clients_want_it(path: str):
    async def main() -> Completion:
        async with serving(server()) as url:
            return await carry(endpoint(url + path), asked())

    assert digest("question 1.") == asyncio.run(main()).answer.split()[0]


def test_a_prompt_of_two_megabytes():
    text = "long " * (2 * LARGE // 5)

    async def main() -> Completion:
        async with serving(server()) as url:
            return await carry(endpoint(url), asked(text=text))

    assert digest(text) == asyncio.run(main()).answer.split()[0]


@pytest.mark.parametrize(
    ("status", "kind", "error"),
    [
        (400, "bad_request", RowError),
        (413, "bad_request", RowError),
        (429, "busy", ReplicaError),
        (500, "server_error", AttemptError),
        (503, "busy", ReplicaError),
        (307, "server_error", AttemptError),
    ],
)
def test_the_status_says_who_is_at_fault(status: int, kind: str, error: type[RequestError]):
    found = ending(Rule(status=status))
    assert isinstance(found, error)
    assert kind == found.kind


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_for_good_is_the_users_to_change(status: int):
    assert isinstance(ending(Rule(status=status)), ConfigError)


def test_retry_after_is_read():
    found = ending(Rule(status=503, headers={"Retry-After": "12"}))
    assert isinstance(found, ReplicaError)
    assert found.retry_after == 12.0


@pytest.mark.parametrize("body", ["<html>Bad gateway</html>", "{}", '{"choices": []}', '{"choices": "a"}', ""])
def test_a_reply_that_is_none_costs_an_attempt(body: str):
    found = ending(Rule(body=body))
    assert isinstance(found, AttemptError)
    assert found.kind == "malformed"


def test_a_cut_connection_is_the_replicas_fault():
    found = ending(Rule(close=True))
    assert isinstance(found, ReplicaError)
    assert found.kind == "lost"


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b'HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n{"choices": [',
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{",
    ],
)
def test_a_reply_that_ends_early_is_a_lost_connection(reply: bytes):
    found = told(reply)
    assert isinstance(found, ReplicaError)
    assert found.kind == "lost"


@pytest.mark.parametrize(
    "reply", [b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{"]
)
def test_what_is_not_http_is_not_an_answer(reply: bytes):
    found = told(reply)
    assert isinstance(found, AttemptError)
    assert found.kind == "malformed"


def test_nobody_on_the_port_is_a_refusal():
    with socket.socket() as taken:  # bound, not listening: nobody else gets it, and nobody is let in
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ReplicaError) as caught:
            asyncio.run(carry(endpoint(f"http://127.0.0.1:{taken.getsockname()[1]}"), asked()))
    assert caught.value.kind == "refused"


@pytest.mark.parametrize("url", ["", "localhost", "http://", "ftp://127.0.0.1:1"])
def test_what_is_no_url_is_the_users_to_change(url: str):
    with pytest.raises(ConfigError):
        asyncio.run(carry(endpoint(url), asked()))


def test_a_request_that_is_given_up_is_given_up_at_the_server_too():
    async def main() -> tuple[str, int]:
        fake = server(Rule(hang=True))
        async with serving(fake) as url, open_session("") as session:
            with pytest.raises(AttemptError) as caught:
                await complete(session, endpoint(url), ENGINES["fake"], asked(), 0.1)
            await until(lambda: fake.abandoned)
        return caught.value.kind, fake.seen

    assert asyncio.run(main()) == ("timeout", 1)


def test_more_than_a_hundred_at_once():
    """The default of the client library's pool."""

    async def main() -> int:
        fake = server(slots=300)
        gate = asyncio.Barrier(300)

        async def meet(_body: object, _rule: object) -> dict[str, object]:
            await gate.wait()
            return {"choices": [{"message": {"content": "here"}, "finish_reason": "stop"}]}

        fake.complete = meet
        async with serving(fake) as url, open_session("") as session, asyncio.TaskGroup() as tasks:
            for number in range(300):
                tasks.create_task(complete(session, endpoint(url), ENGINES["fake"], asked(number), 60))
        return fake.peak

    assert asyncio.run(main()) == 300


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SOME_KEY", "s3cret\n")

    async def main() -> str:
        async with open_session("SOME_KEY") as session:
            return session.headers["Authorization"]

    assert asyncio.run(main()) == "Bearer s3cret"
    monkeypatch.delenv("SOME_KEY")
    with pytest.raises(ConfigError, match="SOME_KEY, which is not set"):
        open_session("SOME_KEY")
