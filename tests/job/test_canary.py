"""A run's first prompt as the canary, and endpoints of others that answer it."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from sevenfold.config import Conversation, Fleet, RunSpec
from sevenfold.engines.fake_server import FakeServer, Script, serving
from sevenfold.errors import FleetError
from sevenfold.fleet import Canary
from sevenfold.job.canary import canary_of, complaints, require_some
from sevenfold.types import Endpoint, Message


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_text('not JSON\n{"prompt": ""}\n{"prompt": "Who are you?"}\n{"prompt": "Next?"}\n')
    return path


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """Its template writes one word before and one behind a message."""
    words = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.save(str(tmp_path / "tokenizer.json"))
    template = "{% for m in messages %}user {{ m.content }} {% endfor %}assistant"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    return tmp_path


def judged(servers: Sequence[Script], canary: Canary, times: int = 1) -> list[dict[int, str]]:
    """The complaints of so many checks, by the place of the server."""

    async def check() -> list[dict[int, str]]:
        async with AsyncExitStack() as stack:
            urls = [await stack.enter_async_context(serving(FakeServer(script, "m"))) for script in servers]
            endpoints = [Endpoint(url, url, "m", "fake", 8) for url in urls]
            found = [await complaints(endpoints, canary, "") for _ in range(times)]
            return [{urls.index(url): why for url, why in wrong.items()} for wrong in found]

    return asyncio.run(check())


def test_the_first_accepted_row_is_what_is_asked(prompts: Path) -> None:
    asked = RunSpec(conversation=Conversation(thinking=True), fleet=Fleet(canary_every=60))
    canary = canary_of(asked, [prompts], None)
    assert canary == Canary((Message("user", "Who are you?"),), thinking=True, every=60)


def test_without_an_accepted_row_it_is_the_built_in_prompt(tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("{}\n")
    assert canary_of(RunSpec(), [tmp_path / "none.jsonl"], None) == Canary()


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        (Script(thinking=False), "it lost its thinking switch"),
        (Script(template=9), "renders the first prompt to 12 tokens, the others to 3"),
        (Script(serves="stale"), "it serves 'stale', not 'm'"),
    ],
)
def test_one_endpoint_of_seven_is_found_before_row_one(prompts: Path, odd: Script, why: str) -> None:
    (wrong,) = judged([odd, *[Script(latency=0)] * 6], canary_of(RunSpec(), [prompts], None))
    assert list(wrong) == [0]
    assert why in wrong[0]


def test_one_that_loses_its_thinking_is_found_at_the_next_check() -> None:
    usual, forgetful = Script(latency=0), Script(latency=0, forgets_after=1)
    before, after = judged([usual, forgetful, usual], Canary(), times=2)
    assert (before, list(after)) == ({}, [1])


def test_all_that_render_unlike_the_models_own_tokenizer_are_refused(prompts: Path, tokenizer: Path) -> None:
    canary = canary_of(RunSpec(fleet=Fleet(tokenizer=str(tokenizer))), [prompts], None)
    assert canary.ids is not None
    assert len(canary.ids) == 5
    assert judged([Script(latency=0, template=2)] * 2, canary) == [{}]
    (wrong,) = judged([Script(latency=0)] * 2, canary)
    assert list(wrong) == [0, 1]
    with pytest.raises(FleetError, match="renders the first prompt to 3 tokens, the model's own template to 5"):
        require_some([Endpoint("u", "u", "m", "fake", 8)], {"u": wrong[0]})


def test_who_does_not_answer_is_not_judged_and_nobody_where_it_is_off() -> None:
    nobody = [Endpoint("0", "http://127.0.0.1:9", "m", "fake", 8)]
    assert asyncio.run(complaints(nobody, Canary(), "")) == {}
    assert judged([Script(serves="stale")], Canary(every=0)) == [{}]
