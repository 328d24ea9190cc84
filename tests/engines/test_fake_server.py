"""The fake engine as the program it is, and in this process where a count must be seen."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from sevenfold.engines import ENGINES
from sevenfold.engines.base import Load, Serve
from sevenfold.engines.fake_server import FakeServer, Rule, Script, digest, read_script, serving

INSTANT = Script(latency=0.0)


def body(text: str = "Why?", **fields: Any) -> dict[str, Any]:
    return {"model": "fake", "messages": [{"role": "user", "content": text}], "max_tokens": 4000, **fields}


async def post(url: str, said: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    async with aiohttp.ClientSession() as session, session.post(f"{url}/v1/chat/completions", json=said) as reply:
        return reply.status, await reply.json()


async def get(url: str, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url + path) as reply:
        return reply.status, await reply.text()


def replies(script: Script, *bodies: dict[str, Any], seed: int = 0) -> list[tuple[int, dict[str, Any]]]:
    async def main() -> list[tuple[int, dict[str, Any]]]:
        async with serving(FakeServer(script, seed=seed)) as url:
            return [await post(url, said) for said in bodies]

    return asyncio.run(main())


def message(script: Script, said: dict[str, Any], seed: int = 0) -> dict[str, Any]:
    ((status, found),) = replies(script, said, seed=seed)
    assert status == 200
    return found["choices"][0]["message"]


def test_the_same_prompt_and_seed_bring_the_same_words():
    first = message(INSTANT, body())
    assert message(INSTANT, body()) == first
    assert message(INSTANT, body("Why not?")) != first
    assert message(INSTANT, body(seed=1)) != first
    assert message(INSTANT, body(), seed=1) != first


@pytest.mark.parametrize(
    ("script", "asked", "thinks"),
    [(None, True, True), (None, False, False), (True, False, True), (False, True, False)],
)
def test_it_thinks_as_asked_unless_scripted(script: bool | None, asked: bool, thinks: bool):
    said = body(chat_template_kwargs={"enable_thinking": asked})
    assert bool(message(Script(latency=0.0, thinking=script), said)["reasoning_content"]) == thinks


def test_tokens_are_counted_and_cut():
    ((_, whole), (_, cut)) = replies(INSTANT, body(), body(max_tokens=5))
    words = " ".join(filter(None, whole["choices"][0]["message"].values())).split()
    assert whole["usage"]["completion_tokens"] == len(words) - 1, "all but the role"
    assert (cut["choices"][0]["finish_reason"], cut["usage"]["completion_tokens"]) == ("length", 5)


def test_echo_tells_whose_answer_it_is():
    assert message(Script(latency=0.0, echo=True), body("mine"))["content"].startswith(digest("mine"))


def test_rules_hold_for_their_text_and_their_times():
    rules = (
        Rule(match="Paris", status=503, times=2, headers={"Retry-After": "1"}),
        Rule(match="Rome", reply="", reasoning="", finish="length"),
        Rule(match="Oslo", body='{"choices": []}'),
    )
    script = Script(latency=0.0, reply="Yes.", rules=rules)
    found = replies(script, *(body(city) for city in ("Paris", "Paris", "Paris", "Rome", "Oslo", "Bonn")))
    assert [status for status, _ in found] == [503, 503, 200, 200, 200, 200]
    assert found[3][1]["choices"][0] == {
        "index": 0,
        "message": {"role": "assistant", "content": "", "reasoning_content": None},
        "finish_reason": "length",
    }
    assert found[4][1] == {"choices": []}
    assert found[5][1]["choices"][0]["message"]["content"] == "Yes."


def test_slots_are_a_limit_and_all_is_counted():
    async def main() -> tuple[FakeServer, dict[str, Any], str]:
        server = FakeServer(Script(latency=0.005), slots=2)
        async with serving(server) as url:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(8):
                    tasks.create_task(post(url, body()))
            return server, json.loads((await get(url, "/stats"))[1]), (await get(url, "/metrics"))[1]

    server, stats, metrics = asyncio.run(main())
    assert stats == {"seen": 8, "served": 8, "peak": 2, "abandoned": 0, "prompts": {"Why?": 8}}
    assert ENGINES["fake"].load(metrics) == Load(tokens=server.tokens, running=0, queued=0)


@pytest.mark.parametrize(("lie", "status"), [(False, 503), (True, 200)])
def test_while_it_loads_only_a_lie_says_ready(lie: bool, status: int):
    async def main() -> tuple[int, int]:
        async with serving(FakeServer(Script(load=1000.0, lie_health=lie))) as url:
            return (await get(url, "/health"))[0], (await post(url, body()))[0]

    assert asyncio.run(main()) == (status, 503)


def test_after_so_many_requests_it_answers_no_more():
    async def main() -> int:
        server = FakeServer(Script(latency=0.0, hang_after=1))
        async with serving(server) as url:
            await post(url, body())
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await post(url, body())
            return server.served

    assert asyncio.run(main()) == 1


def test_an_unknown_field_of_a_script_is_refused(tmp_path: Path):
    path = tmp_path / "script.json"
    path.write_text('{"rules": [{"stats": 500}]}')
    with pytest.raises(msgspec.ValidationError, match="stats"):
        read_script(path)


@contextmanager
def program(*flags: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """The process and its URL, as it says it on stdout; no URL where it does not come up."""
    serve = Serve(
        model="m",
        model_name="m",
        port=0,
        gpu=None,
        threads=1,
        slots=4,
        context=1,
        python=sys.executable,
        flags=dict(flag.split("=") for flag in flags),
    )
    command = ENGINES["fake"].command(serve)
    with subprocess.Popen(command.argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().rpartition(" ")[2].strip()
        finally:
            process.kill()


def test_the_program_serves_and_dies_as_scripted(tmp_path: Path):
    path = tmp_path / "script.json"
    path.write_text('{"latency": 0, "die_after": 1}')
    with program(f"script={path}") as (process, url):
        assert asyncio.run(get(url, "/v1/models"))[1] == '{"object": "list", "data": [{"id": "m", "object": "model"}]}'
        assert asyncio.run(post(url, body()))[0] == 200
        with pytest.raises(aiohttp.ClientError):
            asyncio.run(post(url, body()))
        assert process.wait(30) == 1


@pytest.mark.parametrize("script", ['{"latencies": 1}', "{", None])
def test_a_bad_script_is_refused_in_one_line(tmp_path: Path, script: str | None):
    path = tmp_path / "script.json"
    if script is not None:
        path.write_text(script)
    with program(f"script={path}") as (process, url):
        assert url == ""
        assert process.wait(30) == 2
        assert process.stderr is not None
        assert process.stderr.read().startswith(f"fake_server: {path}: ") or script is None


def test_a_taken_port_is_refused_in_one_line():
    with program() as (_, url):
        port = url.rpartition(":")[2]
        argv = [sys.executable, "-m", "sevenfold.engines.fake_server", "--port", port]
        second = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert second.returncode == 3
    assert second.stderr.startswith(f"fake_server: port {port} cannot be had")
    assert second.stderr.count("\n") == 1
