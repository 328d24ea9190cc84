import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sevenfold.engines import ENGINES
from sevenfold.engines.base import Identity
from sevenfold.errors import AttemptError, ConfigError
from sevenfold.fleet.http import carry, describe, identify, is_up
from sevenfold.node.ports import free_port
from sevenfold.types import Endpoint

ANSWERS = {
    "/health": b"",
    "/props": b'{"model_alias": "m", "total_slots": 4, "chat_template": "t"}',
    "/v1/models": b'{"data": [{"id": "m"}]}',
}


class Api(BaseHTTPRequestHandler):
    """Answers who knows its key, where it has one."""

    key = ""
    props = ANSWERS["/props"]

    def do_GET(self) -> None:
        known = not self.key or self.headers["Authorization"] == f"Bearer {self.key}"
        body = self.props if self.path == "/props" else ANSWERS[self.path]
        self.send_response(200 if known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silent."""


@pytest.fixture
def api() -> type[Api]:
    return type("ThisApi", (Api,), {})


@pytest.fixture
def url(api: type[Api]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), api) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def nowhere() -> str:
    return f"http://127.0.0.1:{free_port(0)}"


def test_is_up(url: str) -> None:
    assert asyncio.run(is_up(url, "/health"))
    assert not asyncio.run(is_up(nowhere(), "/health"))


def test_identify(url: str) -> None:
    found = asyncio.run(identify(url, "llamacpp"))
    assert found == Identity(model="m", slots=4, template="t")


def test_nobody_there_is_said_not_raised() -> None:
    url = nowhere()
    found = asyncio.run(identify(url, "llamacpp"))
    assert isinstance(found, str)
    assert url in found


def test_the_deadline_is_one_for_the_whole_talk(url: str) -> None:
    with pytest.raises(AttemptError, match="no answer within 0 s"):
        asyncio.run(carry(url, ENGINES["llamacpp"].identify(), 0.0))


def test_a_server_of_several_models_takes_the_name_asked_for(url: str, api: type[Api]) -> None:
    api.props = b"{}"
    assert asyncio.run(identify(url, "llamacpp", "m2")) == Identity(model="m2")
    assert "name one with --model" in str(asyncio.run(identify(url, "llamacpp")))


def test_a_key_comes_from_the_variable_that_is_named(url: str, api: type[Api], monkeypatch: pytest.MonkeyPatch) -> None:
    api.key = "secret"
    with pytest.raises(ConfigError, match="refuses our key"):
        asyncio.run(identify(url, "llamacpp"))
    monkeypatch.setenv("MY_KEY", "secret")
    assert isinstance(asyncio.run(identify(url, "llamacpp", api_key="MY_KEY")), Identity)


def test_describe(url: str) -> None:
    assert asyncio.run(describe(Endpoint("0", url, "m", "llamacpp", 4))).template == "t"
    with pytest.raises(ConfigError, match="does not say what it serves"):
        asyncio.run(describe(Endpoint("0", nowhere(), "m", "llamacpp", 4)))
