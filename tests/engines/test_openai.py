"""The adapter, fed replies as strings: no socket is opened here."""

import json
from typing import Any

import pytest

from sevenfold.config import Sampling
from sevenfold.engines import ENGINES
from sevenfold.engines.base import Identity, Question, Reply, Request, Serve
from sevenfold.errors import AttemptError, ConfigError, RowError
from sevenfold.types import Completion, Message, Usage

OPENAI = ENGINES["openai"]


def question(thinking: bool = True, **fields: Any) -> Question:
    given = {"messages": (Message("user", "2+2?"),), "model": "tiny", "sampling": Sampling(), "request_id": "0" * 32}
    return Question(**{**given, "thinking": thinking, **fields})


def sent(asked: Question) -> dict[str, Any]:
    request = next(OPENAI.exchange(asked))
    assert request.path == "/v1/chat/completions"
    assert request.body is not None
    return json.loads(request.body)


def read(body: bytes, status: int = 200, asked: Question | None = None) -> Completion:
    exchange = OPENAI.exchange(asked or question())
    next(exchange)
    with pytest.raises(StopIteration) as end:
        exchange.send(Reply(status, body))
    return end.value.value


def reply(finish: str | None = "stop", *, top: dict[str, Any] | None = None, **message: Any) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    usage = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
    return json.dumps({"id": "r", "model": "tiny-v2", "choices": [choice], "usage": usage, **(top or {})}).encode()


def test_every_sampling_parameter_is_sent():
    asked = Sampling(temperature=0.1, top_p=0.2, top_k=3, min_p=0.4, max_tokens=5, seed=6, extra={"stop": ["x"]})
    assert sent(question(sampling=asked, template_kwargs={"lang": "en"})) == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "2+2?"}],
        "temperature": 0.1,
        "top_p": 0.2,
        "top_k": 3,
        "min_p": 0.4,
        "max_tokens": 5,
        "seed": 6,
        "stop": ["x"],
        "chat_template_kwargs": {"enable_thinking": True, "lang": "en"},
    }


def test_without_a_seed_the_engine_draws_its_own():
    assert "seed" not in sent(question())


def test_top_k_zero_switches_it_off_rather_than_to_the_models_default():
    assert sent(question(sampling=Sampling(top_k=0)))["top_k"] == -1


def test_the_users_own_parameters_win():
    assert sent(question(sampling=Sampling(extra={"max_tokens": 7})))["max_tokens"] == 7


def test_tools_and_their_messages_are_sent_whole():
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    history = (
        Message("user", "add"),
        Message("assistant", None, reasoning="I should add.", tool_calls=(call,)),
        Message("tool", "4", tool_call_id="c", name="add"),
    )
    tool = {"type": "function", "function": {"name": "add"}}
    body = sent(question(messages=history, tools=(tool,)))
    assert body["tools"] == [tool]
    assert body["messages"][1:] == [
        {"role": "assistant", "content": None, "reasoning_content": "I should add.", "tool_calls": [call]},
        {"role": "tool", "content": "4", "tool_call_id": "c", "name": "add"},
    ]


def test_a_whole_reply():
    details = {
        "prompt_token_ids": [1, 2],
        "usage": {
            "prompt_tokens": 2,
            "completion_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": 1},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
    }
    body = json.loads(reply(content="Four.", reasoning_content="2+2 is 4.", top=details))
    body["choices"][0]["token_ids"] = [5, 6, 7]
    assert read(json.dumps(body).encode()) == Completion(
        answer="Four.",
        reasoning="2+2 is 4.",
        finish_reason="stop",
        usage=Usage(2, 3, reasoning_tokens=2, cached_tokens=1),
        model="tiny-v2",
        prompt_token_ids=(1, 2),
        completion_token_ids=(5, 6, 7),
    )


@pytest.mark.parametrize(
    "message",
    [
        {"content": "Four.", "reasoning_content": "2+2 is 4."},
        {"content": "Four.", "reasoning": "2+2 is 4."},
        {"content": "Four.", "reasoning": "2+2 is 4.", "reasoning_content": None},
        {"content": "<think>\n2+2 is 4.\n</think>\n\nFour."},
        {"content": "2+2 is 4.\n</think>\n\nFour."},
    ],
)
def test_a_thought_has_one_name_whatever_the_server_calls_it(message: dict[str, str]):
    found = read(reply(**message))
    assert (found.reasoning, found.answer) == ("2+2 is 4.", "Four.")


def test_a_closing_tag_in_an_answer_without_thinking_is_left_for_the_checks():
    found = read(reply(content="a </think> b"), asked=question(thinking=False))
    assert (found.reasoning, found.answer) == ("", "a </think> b")


def test_a_second_closing_tag_is_left_for_the_checks():
    found = read(reply(content="Plan.\n</think>\nLet me paste it.\n</think>\nDone."))
    assert (found.reasoning, found.answer) == ("Plan.", "Let me paste it.\n</think>\nDone.")


def test_an_unclosed_thought_is_all_reasoning():
    found = read(reply("length", content="<think>\nFirst I"))
    assert (found.reasoning, found.answer, found.finish_reason) == ("First I", "", "length")


@pytest.mark.parametrize("content", [None, ""])
def test_an_empty_answer_is_a_completion_for_the_checks_to_judge(content: str | None):
    body = json.dumps({"choices": [{"message": {"content": content}, "finish_reason": "length"}], "usage": None})
    assert read(body.encode()) == Completion("", "", "length", Usage())


def test_tool_calls_are_kept():
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    found = read(reply("tool_calls", content=None, tool_calls=[call]))
    assert (found.finish_reason, found.tool_calls) == ("tool_calls", (call,))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"object": "error", "message": "model not loaded", "code": 503}', "model not loaded"),
        (b'{"choices": []}', "without choices"),
        (b'{"choices": [{"message": {"content": 7}, "finish_reason": "stop"}]}', "choices[0].message.content"),
        (b'{"choices": [{"text": "a", "finish_reason": "stop"}]}', "message"),
        (b"<html>Bad gateway</html>", "Bad gateway"),
        (b'{"choices": [{"mess', "truncated"),
        (b"\xff\xfe", ""),
        (b"", "nothing (HTTP 200)"),
    ],
)
def test_two_hundred_is_no_promise(body: bytes, says: str):
    with pytest.raises(AttemptError) as caught:
        read(body)
    assert caught.value.kind == "malformed"
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("finish", "kind"), [("abort", "abort"), ("error", "abort"), (None, "malformed"), ("x", "malformed")]
)
def test_a_reply_that_was_given_up_is_not_kept(finish: str | None, kind: str):
    with pytest.raises(AttemptError) as caught:
        read(reply(finish, content="half an ans"))
    assert caught.value.kind == kind


def test_a_filtered_reply_fails_its_row():
    with pytest.raises(RowError) as caught:
        read(reply("content_filter", content=""))
    assert caught.value.kind == "content_filter"


def test_a_prompt_that_does_not_fit_is_told_apart():
    said = b'{"error": {"message": "This model\'s maximum context length is 8192 tokens. However, you requested 8203"}}'
    with pytest.raises(RowError) as caught:
        read(said, status=400)
    assert caught.value.kind == "too_long"


def identity(body: bytes) -> Identity:
    inquiry = OPENAI.identify()
    assert next(inquiry) == Request("/v1/models")
    with pytest.raises(StopIteration) as end:
        inquiry.send(Reply(200, body))
    return end.value.value


def test_the_server_says_what_it_serves():
    body = b'{"object": "list", "data": [{"id": "tiny", "max_model_len": 8192}, {"id": "adapter"}]}'
    assert identity(body) == Identity("tiny", context=8192)


@pytest.mark.parametrize("body", [b'{"data": []}', b"[]", b"<html>"])
def test_a_server_without_models_is_not_one(body: bytes):
    inquiry = OPENAI.identify()
    next(inquiry)
    with pytest.raises(AttemptError):
        inquiry.send(Reply(200, body))


def test_it_is_never_started_by_us():
    serve = Serve(model="m", model_name="m", port=1, gpu=None, threads=1, slots=1, context=1, python="python")
    with pytest.raises(ConfigError):
        OPENAI.command(serve)
    assert OPENAI.metrics_path is None
    assert OPENAI.load("") == type(OPENAI.load(""))()
    assert OPENAI.diagnose("Traceback") is None
