"""A server with OpenAI's chat API that only pretends to think: `python -m sevenfold.engines.fake_server --port P`.

The same prompt and seed bring the same words. /health, /v1/models, /metrics are as engines have them; GET /stats tells
what it saw. What it does is a script, a JSON file named with --script (in a run file: fleet.flags.script):

    {"latency": 0.5, "sigma": 0.3, "tokens": 80,
     "rules": [{"match": "Paris", "status": 500, "times": 2}, {"match": "Rome", "hang": true}]}

The fields are those of Script and Rule below; an unknown one is refused. The first rule whose `match` is found in the
last user message, and whose `times` are not used up, decides the reply.

Exit codes: 1 died as the script says, 2 bad flags or script, 3 port taken.
"""

import argparse
import asyncio
import hashlib
import math
import os
import random
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn

import msgspec
from aiohttp import web

VOCABULARY = """
about above after again all also and any area back base because before below best between both bring build call case
change clear close come cost count course cover data day deep degree does down draw each early earth easy end energy
equal even every example fact far field find first five follow force form four free front full general give good great
green group grow half hand hard heat high hold hour idea keep kind know land large last later law lead learn left
length less level light line list little long look low main make many map mark mass mean measure method middle mind
more most move much name near need new next night note number object often old one open order other over page part
past path place plain plan point power press process prove put quick range rate reach read real reason rest result
right rise river rock room root round rule same scale sea second see sense set seven shape short show side simple
since size small some sound south space speed stand star start state step still stop strong study such sum sun sure
system table take term test than then there thing think third time together top total toward tree true turn two type
under unit until use value very view voice wall warm watch water wave way west wheel while whole wide wind with word
work world year
"""
WORDS = VOCABULARY.split()


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One kind of reply. Of the faults, at most one of `status`, `hang`, `close`."""

    match: str = ""
    """Text in the last user message; empty: any."""
    times: int = 0
    """For how many requests; 0: all."""
    delay: float = 0.0
    """Seconds before anything else."""
    status: int = 200
    headers: dict[str, str] = {}
    body: str | None = None
    """Sent as it is, in place of the reply."""
    hang: bool = False
    close: bool = False
    """The connection is cut without a reply."""
    reply: str | None = None
    """The answer."""
    reasoning: str | None = None
    finish: str | None = None
    """The finish_reason."""


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    latency: float = 0.05
    """Mean seconds per reply, once it has a slot: log-normal, by prompt and seed."""
    sigma: float = 0.5
    tokens: int = 80
    """Mean tokens of a reply, thought and answer together: log-normal too."""
    thinking: bool | None = None
    """Whether replies think. None: as the request asks."""
    reply: str | None = None
    """Every answer."""
    echo: bool = False
    """Answers begin with the digest of the last user message: who got whose answer can be told."""
    rules: tuple[Rule, ...] = ()
    die_after: int = 0
    """The request after this many kills the process. 0: none."""
    hang_after: int = 0
    """Requests after this many are never answered. 0: none."""
    forgets_after: int = 0
    """Replies after this many requests do not think, whatever is asked. 0: none."""
    template: int = 0
    """Tokens that its chat template puts around every prompt."""
    serves: str = ""
    """The model's name, in place of the one that --model gives."""
    load: float = 0.0
    """Seconds from start until it is ready; 503 before."""
    lie_health: bool = False
    """/health says 200 also while it loads."""


def read_script(path: Path) -> Script:
    """OSError or msgspec.MsgspecError where it cannot be had."""
    return msgspec.json.decode(path.read_bytes(), type=Script)


def digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class FakeServer:
    def __init__(self, script: Script, model: str = "fake", slots: int = 0, seed: int = 0) -> None:
        self.script, self.model, self.seed = script, script.serves or model, seed
        self.slots = asyncio.Semaphore(slots or 1_000_000)
        self.prompts: Counter[str] = Counter()
        self.used: Counter[int] = Counter()
        self.seen = self.served = self.running = self.queued = self.peak = self.abandoned = self.tokens = 0
        self.ready_at = asyncio.get_running_loop().time() + script.load

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_post("/v1/chat/completions", self.chat)
        app.router.add_get("/health", self.health)
        app.router.add_get("/v1/models", self.models)
        app.router.add_get("/metrics", self.metrics)
        app.router.add_get("/stats", self.stats)
        return app

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json(loads=msgspec.json.decode)
        said = last_user(body)
        self.seen += 1
        self.prompts[said] += 1
        if self.script.die_after and self.seen > self.script.die_after:
            os._exit(1)
        if self.is_loading():
            return web.json_response({"error": {"message": "loading"}}, status=503)
        hangs = bool(self.script.hang_after) and self.seen > self.script.hang_after
        try:
            return await self.answer(request, body, Rule(hang=True) if hangs else self.rule(said))
        except asyncio.CancelledError:
            self.abandoned += 1
            raise

    def rule(self, said: str) -> Rule:
        for place, rule in enumerate(self.script.rules):
            if rule.match in said and (not rule.times or self.used[place] < rule.times):
                self.used[place] += 1
                return rule
        return Rule()

    async def answer(self, request: web.Request, body: dict[str, Any], rule: Rule) -> web.StreamResponse:
        if rule.delay:
            await asyncio.sleep(rule.delay)
        if rule.hang:
            await asyncio.Event().wait()
        if rule.close:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if rule.status != 200 or rule.body is not None:
            text = rule.body if rule.body is not None else '{"error": {"message": "scripted"}}'
            kind = "application/json" if text.startswith("{") else "text/html"
            return web.Response(text=text, status=rule.status, headers=rule.headers, content_type=kind)
        self.queued += 1
        try:
            await self.slots.acquire()
        finally:
            self.queued -= 1
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            return web.json_response(body=msgspec.json.encode(await self.complete(body, rule)))
        finally:
            self.running -= 1
            self.slots.release()

    async def complete(self, body: dict[str, Any], rule: Rule) -> dict[str, Any]:
        said = last_user(body)
        dice = random.Random(f"{self.seed}/{body.get('seed')}/{body['messages']}")
        reasoning, answer = self.words(dice, body, rule, said)
        thought, written = reasoning.split(" ") if reasoning else [], answer.split(" ") if answer else []
        room = int(body.get("max_tokens") or 1_000_000)
        finish = rule.finish or ("length" if len(thought) + len(written) > room else "stop")
        thought, written = thought[:room], written[: max(0, room - len(thought))]
        await asyncio.sleep(around(dice, self.script.latency, self.script.sigma))
        self.served += 1
        self.tokens += len(thought) + len(written)
        message = {"role": "assistant", "content": " ".join(written), "reasoning_content": " ".join(thought) or None}
        asked = sum(len(str(message.get("content")).split()) for message in body["messages"])
        return {
            "id": f"chatcmpl-{self.served}",
            "object": "chat.completion",
            "model": self.model,
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {
                "prompt_tokens": asked + self.script.template,
                "completion_tokens": len(thought) + len(written),
                "completion_tokens_details": {"reasoning_tokens": len(thought)},
            },
        }

    def words(self, dice: random.Random, body: dict[str, Any], rule: Rule, said: str) -> tuple[str, str]:
        """(reasoning, answer) before max_tokens cuts them."""
        thinks = self.script.thinking
        if thinks is None:
            thinks = body.get("chat_template_kwargs", {}).get("enable_thinking", True)
        if self.script.forgets_after and self.seen > self.script.forgets_after:
            thinks = False
        tokens = max(4, round(around(dice, self.script.tokens, self.script.sigma)))
        reasoning = prose(dice, tokens * 2 // 3) if thinks else ""
        answer = prose(dice, tokens // 3 if thinks else tokens)
        if self.script.reply is not None:
            answer = self.script.reply
        if rule.reply is not None:
            answer = rule.reply
        if self.script.echo:
            answer = f"{digest(said)} {answer}"
        return reasoning if rule.reasoning is None else rule.reasoning, answer

    def is_loading(self) -> bool:
        return asyncio.get_running_loop().time() < self.ready_at

    async def health(self, _request: web.Request) -> web.Response:
        return web.Response(status=503 if self.is_loading() and not self.script.lie_health else 200)

    async def models(self, _request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": self.model, "object": "model"}]})

    async def metrics(self, _request: web.Request) -> web.Response:
        facts = {
            "generated_tokens_total": self.tokens,
            "requests_running": self.running,
            "requests_queued": self.queued,
        }
        return web.Response(text="".join(f"fake:{name} {value}\n" for name, value in facts.items()))

    async def stats(self, _request: web.Request) -> web.Response:
        facts = {"seen": self.seen, "served": self.served, "peak": self.peak, "abandoned": self.abandoned}
        return web.json_response({**facts, "prompts": self.prompts})


def last_user(body: dict[str, Any]) -> str:
    users = [message for message in body["messages"] if message["role"] == "user"]
    return str(users[-1]["content"]) if users else ""


def around(dice: random.Random, mean: float, sigma: float) -> float:
    """A draw from the log-normal with this mean."""
    return dice.lognormvariate(math.log(mean) - sigma * sigma / 2, sigma) if mean > 0 else 0.0


def prose(dice: random.Random, words: int) -> str:
    sentences: list[str] = []
    while words > 0:
        length = min(words, dice.randint(6, 14))
        sentences.append(" ".join(dice.choices(WORDS, k=length)).capitalize() + ".")
        words -= length
    return " ".join(sentences)


@asynccontextmanager
async def serving(server: FakeServer, port: int = 0) -> AsyncGenerator[str]:
    """Its URL, while it listens on 127.0.0.1. Port 0: any free one. OSError where the port is taken."""
    # A client that goes away cancels its request, as it aborts it in a real engine.
    runner = web.AppRunner(server.app(), access_log=None, handler_cancellation=True, shutdown_timeout=0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        host, bound = runner.addresses[0][:2]
        yield f"http://{host}:{bound}"
    finally:
        await runner.cleanup()


async def serve(script: Script, given: argparse.Namespace) -> None:
    server = FakeServer(script, given.model, given.slots, given.seed)
    async with serving(server, given.port) as url:
        print(f"serving {given.model} at {url}", flush=True)
        await asyncio.Event().wait()


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description="A scripted engine for rehearsals.", allow_abbrev=False)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--script", type=Path, help="a JSON file; the module's docstring tells its fields")
    parser.add_argument("--slots", type=int, default=0, help="requests answered at once; 0: any number")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", default="fake")
    given = parser.parse_args(argv)
    try:
        script = read_script(given.script) if given.script else Script()
    except (OSError, msgspec.MsgspecError) as error:
        refuse(2, f"{given.script}: {error}")
    try:
        asyncio.run(serve(script, given))
    except OSError as error:
        refuse(3, f"port {given.port} cannot be had: {error}")


def refuse(code: int, sentence: str) -> NoReturn:
    print(f"fake_server: {sentence}", file=sys.stderr, flush=True)
    sys.exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
