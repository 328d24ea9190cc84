from typing import Any

import pytest

from sevenfold.config import Sampling
from sevenfold.engines.base import Load, Serve
from sevenfold.engines.vllm import VLLM
from sevenfold.errors import AttemptError
from tests.engines.carry import carry, question

ENGINE = VLLM()

SERVE = Serve(
    model="/models/smol", model_name="smol", port=8000, gpu=None, threads=2, slots=8, context=2048, python="python3"
)

REPLY: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "qwen",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "4", "reasoning": "adding", "tool_calls": []},
            "finish_reason": "stop",
            "stop_reason": None,
            "token_ids": [11, 12, 13, 7],
        }
    ],
    "usage": {"prompt_tokens": 3, "total_tokens": 7, "completion_tokens": 4},
    "prompt_token_ids": [1, 2, 3],
}
"""The shape of a chat reply of 0.33 to a request with return_token_ids."""

METRICS = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="qwen"} 8.0
vllm:num_requests_waiting{engine="0",model_name="qwen"} 3.0
vllm:generation_tokens_total{engine="0",model_name="qwen"} 12345.0
vllm:generation_tokens_created{engine="0",model_name="qwen"} 1.7e+09
"""


def reply(message: dict[str, Any], **choice: Any) -> dict[str, Any]:
    return {**REPLY, "choices": [{**REPLY["choices"][0], "message": message, **choice}]}


def test_chat_with_token_ids() -> None:
    asked, completion = carry(ENGINE.exchange(question()), (200, REPLY))
    path, body = asked[0]
    assert path == "/v1/chat/completions"
    assert body["return_token_ids"] is True
    assert body["request_id"] == "0123456789abcdef0123456789abcdef"
    assert body["max_tokens"] == 512
    assert (completion.reasoning, completion.answer, completion.finish_reason) == ("adding", "4", "stop")
    assert completion.prompt_token_ids == (1, 2, 3)
    assert completion.completion_token_ids == (11, 12, 13, 7)
    assert completion.rendered_prompt == question().rendered_prompt


def test_the_older_name_of_reasoning() -> None:
    _, completion = carry(ENGINE.exchange(question()), (200, reply({"content": "4", "reasoning_content": "adding"})))
    assert completion.reasoning == "adding"


@pytest.mark.parametrize(
    ("content", "reasoning", "answer"),
    [("adding\n</think>\n\n4", "adding", "4"), ("adding and", "adding and", "")],
)
def test_without_a_parser_an_open_thought_is_split_off(content: str, reasoning: str, answer: str) -> None:
    _, completion = carry(ENGINE.exchange(question()), (200, reply({"content": content})))
    assert (completion.reasoning, completion.answer) == (reasoning, answer)


def test_where_nothing_was_opened_text_is_the_answer() -> None:
    _, completion = carry(ENGINE.exchange(question(rendered_prompt=None)), (200, reply({"content": "4"})))
    assert (completion.reasoning, completion.answer) == ("", "4")


def test_ids_behind_the_end_token_are_cut() -> None:
    junk = reply({"content": "4<|im_end|>4", "reasoning": "x"}, token_ids=[11, 7, 12], finish_reason="length")
    _, completion = carry(ENGINE.exchange(question()), (200, junk))
    assert completion.completion_token_ids == (11, 7)
    assert (completion.answer, completion.finish_reason) == ("4", "stop")
    assert completion.usage.completion_tokens == 2
    asked = question(sampling=Sampling(extra={"ignore_eos": True}))
    _, completion = carry(ENGINE.exchange(asked), (200, junk))
    assert completion.completion_token_ids == (11, 7, 12)


def test_an_abort_is_no_answer() -> None:
    with pytest.raises(AttemptError):
        carry(ENGINE.exchange(question()), (200, reply({"content": ""}, finish_reason="abort")))


def test_identify() -> None:
    models = {"object": "list", "data": [{"id": "smol", "max_model_len": 2048, "root": "/models/smol"}]}
    asked, identity = carry(ENGINE.identify(), (200, models), (200, {"version": "0.33.0"}))
    assert [path for path, _ in asked] == ["/v1/models", "/version"]
    assert (identity.model, identity.context, identity.version) == ("smol", 2048, "0.33.0")


def test_command_on_a_cpu() -> None:
    command = ENGINE.command(SERVE)
    assert command.argv == (
        *("python3", "-m", "vllm.entrypoints.cli.main", "serve", "/models/smol"),
        *("--served-model-name", "smol", "--host", "127.0.0.1", "--port", "8000", "--max-model-len", "2048"),
    )
    assert command.env == {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "2"}


def test_command_on_gpus() -> None:
    serve = Serve(
        model="/m", model_name="m", port=1, gpu="0,1", threads=2, slots=8, context=0, python="p",
        flags={"max-num-seqs": 64, "no-enable-prefix-caching": True, "enforce-eager": False},
    )  # fmt: skip
    command = ENGINE.command(serve)
    flags = command.argv[command.argv.index("--port") :]
    assert flags == (
        *("--port", "1", "--tensor-parallel-size", "2", "--max-num-seqs", "64", "--no-enable-prefix-caching"),
    )
    assert command.env == {}


def test_load() -> None:
    assert ENGINE.load(METRICS) == Load(tokens=12345, running=8, queued=3)
    assert ENGINE.load("") == Load()


def test_deaths_are_explained() -> None:
    found = ENGINE.diagnose("ValueError: No available memory for the cache blocks.\n")
    assert found is not None
    assert "--gpu-memory-utilization" in found.remedy
