from typing import Any

import pytest

from sevenfold.config import Sampling
from sevenfold.engines.base import Load, Serve
from sevenfold.engines.sglang import SGLang, nccl_port
from sevenfold.errors import AttemptError, ConfigError, ReplicaError, RowError
from sevenfold.types import Completion, Usage
from tests.engines.carry import carry, question

ENGINE = SGLang()

SERVE = Serve(
    model="/models/Qwen3.6-27B",
    model_name="qwen",
    port=30000,
    gpu="2",
    threads=8,
    slots=16,
    context=8192,
    python="/opt/engine/bin/python",
)

REPLY: dict[str, Any] = {
    "text": "adding\n</think>\n\n4",
    "output_ids": [11, 12, 13, 7],
    "meta_info": {
        "id": "0123456789abcdef0123456789abcdef",
        "finish_reason": {"type": "stop", "matched": 7},
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "cached_tokens": 0,
        "reasoning_tokens": 0,
        "total_retractions": 0,
        "weight_version": "default",
        "spec_accept_rate": 0.5,
        "spec_accept_length": 2.5,
        "spec_verify_ct": 2,
        "e2e_latency": 0.1,
    },
}
"""The shape of a /generate reply of 0.5.11."""

SERVER_INFO: dict[str, Any] = {
    "model_path": "/models/Qwen3.6-27B",
    "served_model_name": "qwen",
    "context_length": 8192,
    "max_req_input_len": 8186,
    "max_running_requests": 48,
    "max_total_num_tokens": 576030,
    "version": "0.5.11",
    "internal_states": [
        {
            "effective_max_running_requests_per_dp": 16,
            "memory_usage": {"weight": 51.05, "kvcache": 35.16, "token_capacity": 576030, "graph": 0.23},
        }
    ],
}
"""What a real 0.5.11 said of the as-found launch, shortened."""

METRICS = """\
sglang:generation_tokens_total{engine_type="unified",model_name="/models/Qwen3.6-27B"} 24584.0
sglang:num_running_reqs{engine_type="unified",model_name="/models/Qwen3.6-27B",tp_rank="0"} 16.0
sglang:num_queue_reqs{engine_type="unified",model_name="/models/Qwen3.6-27B",tp_rank="0"} 0.0
sglang:gen_throughput{engine_type="unified",model_name="/models/Qwen3.6-27B",tp_rank="0"} 587.9817518466886
"""

REALTIME = """\
sglang:realtime_tokens_total{mode="prefill_compute",model_name="m"} 9000.0
sglang:realtime_tokens_total{mode="decode",model_name="m"} 30001.0
"""


def answered(changes: dict[str, Any], meta: dict[str, Any] | None = None, **asked: Any) -> Completion:
    reply = {**REPLY, **changes, "meta_info": {**REPLY["meta_info"], **(meta or {})}}
    _, completion = carry(ENGINE.exchange(question(**asked)), (200, reply))
    return completion


def test_ids_go_out_and_come_back() -> None:
    asked, completion = carry(ENGINE.exchange(question()), (200, REPLY))
    assert asked == [
        (
            "/generate",
            {
                "input_ids": [1, 2, 3],
                "rid": "0123456789abcdef0123456789abcdef",
                "sampling_params": {
                    "max_new_tokens": 512,
                    "temperature": 0.6,
                    "top_p": 0.95,
                    "top_k": 20,
                    "min_p": 0.0,
                    "frequency_penalty": 0.0,
                    "presence_penalty": 0.0,
                    "repetition_penalty": 1.0,
                    "ignore_eos": False,
                    "skip_special_tokens": False,
                    "spaces_between_special_tokens": False,
                    "stop_token_ids": [7],
                },
            },
        )
    ]
    assert completion == Completion(
        answer="4",
        reasoning="adding",
        finish_reason="stop",
        usage=Usage(prompt_tokens=3, completion_tokens=4, cached_tokens=0),
        model="qwen",
        prompt_token_ids=(1, 2, 3),
        completion_token_ids=(11, 12, 13, 7),
        acceptance_length=2.5,
        rendered_prompt=question().rendered_prompt,
    )


def test_further_parameters_go_where_the_engine_wants_them() -> None:
    sampling = Sampling(top_k=0, seed=5, extra={"presence_penalty": 1.5, "priority": 2})
    asked, _ = carry(ENGINE.exchange(question(sampling=sampling, end_tokens={})), (200, REPLY))
    body = asked[0][1]
    assert body["priority"] == 2
    assert body["sampling_params"]["presence_penalty"] == 1.5
    assert body["sampling_params"]["sampling_seed"] == 5
    assert body["sampling_params"]["top_k"] == -1
    assert "stop_token_ids" not in body["sampling_params"]


def test_junk_behind_the_end_token_is_cut_and_the_finish_corrected() -> None:
    completion = answered(
        {"text": "x\n</think>\n\n4<|im_end|>\n4", "output_ids": [11, 12, 7, 13, 14]},
        {"finish_reason": {"type": "length", "length": 5}},
    )
    assert completion.completion_token_ids == (11, 12, 7)
    assert (completion.answer, completion.finish_reason) == ("4", "stop")
    assert completion.usage.completion_tokens == 3


def test_an_end_token_at_the_very_limit_is_a_stop() -> None:
    completion = answered({}, {"finish_reason": {"type": "length", "length": 4}})
    assert completion.finish_reason == "stop"


def test_a_truncated_thought_is_all_reasoning() -> None:
    completion = answered(
        {"text": "adding and add", "output_ids": [11, 12]}, {"finish_reason": {"type": "length", "length": 2}}
    )
    assert (completion.reasoning, completion.answer, completion.finish_reason) == ("adding and add", "", "length")


def test_end_tokens_inside_stay_where_they_are_to_be_ignored() -> None:
    sampling = Sampling(extra={"ignore_eos": True})
    completion = answered({"output_ids": [7, 11]}, {"finish_reason": {"type": "length"}}, sampling=sampling)
    assert completion.completion_token_ids == (7, 11)
    assert completion.finish_reason == "length"


def test_a_server_without_tokenizer_gives_ids_alone() -> None:
    reply = {"output_ids": [11, 12], "meta_info": {**REPLY["meta_info"], "finish_reason": {"type": "length"}}}
    _, completion = carry(ENGINE.exchange(question()), (200, reply))
    assert (completion.answer, completion.reasoning) == ("", "")
    assert completion.completion_token_ids == (11, 12)


def test_without_speculation_no_acceptance_is_told() -> None:
    reply = {
        "text": "4",
        "output_ids": [11],
        "meta_info": {"finish_reason": {"type": "stop", "matched": 7}, "prompt_tokens": 3},
    }
    _, completion = carry(ENGINE.exchange(question(rendered_prompt=None)), (200, reply))
    assert completion.acceptance_length is None
    assert completion.answer == "4"


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ({"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}, "abort"),
        ({"type": "stop", "matched": "NaN happened"}, "nan"),
        ({"type": "eaten"}, "malformed"),
        (None, "malformed"),
    ],
)
def test_a_failure_inside_200_is_a_failure(reason: Any, kind: str) -> None:
    with pytest.raises(AttemptError) as caught:
        answered({}, {"finish_reason": reason})
    assert caught.value.kind == kind


@pytest.mark.parametrize("body", [b"<html>", b"[]", {"text": "4"}, {**REPLY, "output_ids": ["a"]}])
def test_what_is_no_reply_is_malformed(body: Any) -> None:
    with pytest.raises(AttemptError) as caught:
        carry(ENGINE.exchange(question()), (200, body))
    assert caught.value.kind == "malformed"


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, {"error": {"message": "The input (9000 tokens) is longer than the model's context length"}}, RowError),
        (503, {"detail": "The request queue is full."}, ReplicaError),
        (500, {"detail": "aborted last request due to OOM"}, AttemptError),
        (404, {"detail": "Not Found"}, ConfigError),
    ],
)
def test_statuses(status: int, body: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        carry(ENGINE.exchange(question()), (status, body))


def test_without_ids_the_chat_api_is_asked() -> None:
    chat = {
        "model": "qwen",
        "choices": [{"message": {"content": "4", "reasoning_content": "adding"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4},
    }
    asked, completion = carry(ENGINE.exchange(question(prompt_token_ids=None)), (200, chat))
    path, body = asked[0]
    assert path == "/v1/chat/completions"
    assert body["rid"] == "0123456789abcdef0123456789abcdef"
    assert body["chat_template_kwargs"] == {"enable_thinking": True}
    assert (completion.answer, completion.reasoning) == ("4", "adding")
    assert completion.completion_token_ids is None


def test_what_the_server_says_it_got() -> None:
    asked, identity = carry(ENGINE.identify(), (200, SERVER_INFO))
    assert asked == [("/server_info", None)]
    assert (identity.model, identity.version) == ("qwen", "0.5.11")
    assert (identity.slots, identity.kv_tokens, identity.context) == (16, 576030, 8192)


def test_an_older_server_is_asked_by_its_older_name_and_may_know_less() -> None:
    old = {"model_path": "/models/m", "max_req_input_len": 4090, "max_running_requests": 48}
    asked, identity = carry(ENGINE.identify(), (404, {}), (200, old))
    assert [path for path, _ in asked] == ["/server_info", "/get_server_info"]
    assert (identity.model, identity.slots, identity.context) == ("/models/m", None, 4090)


def test_the_slots_of_all_ranks_count() -> None:
    states = SERVER_INFO["internal_states"] * 2
    _, identity = carry(ENGINE.identify(), (200, {**SERVER_INFO, "internal_states": states}))
    assert (identity.slots, identity.kv_tokens) == (32, 1152060)


def test_command() -> None:
    command = ENGINE.command(SERVE)
    assert command.argv == (
        *("/opt/engine/bin/python", "-m", "sglang.launch_server"),
        *("--model-path", "/models/Qwen3.6-27B", "--served-model-name", "qwen"),
        *("--host", "127.0.0.1", "--port", "30000", "--nccl-port", "31000", "--enable-metrics"),
        *("--context-length", "8192"),
    )
    assert command.env == {}


def test_without_a_context_the_model_decides() -> None:
    assert "--context-length" not in ENGINE.command(Serve(**{**fields(SERVE), "context": 0})).argv


def test_flags_pass_through_and_win() -> None:
    flags: dict[str, Any] = {"context_length": 4096, "nccl-port": 5, "host": "0.0.0.0", "x": False}
    flags["disable-radix-cache"] = True
    argv = ENGINE.command(Serve(**{**fields(SERVE), "flags": flags})).argv
    assert argv[argv.index("--context-length") + 1] == "4096"
    assert argv[argv.index("--nccl-port") + 1] == "5"
    assert argv[argv.index("--host") + 1] == "127.0.0.1"
    assert argv[-1] == "--disable-radix-cache"
    assert "--x" not in argv


def test_several_gpus_are_a_tensor_parallel_group() -> None:
    argv = ENGINE.command(Serve(**{**fields(SERVE), "gpu": "0,1"})).argv
    assert argv[argv.index("--tp-size") + 1] == "2"
    argv = ENGINE.command(Serve(**{**fields(SERVE), "gpu": "0,1", "flags": {"tp": 2}})).argv
    assert "--tp-size" not in argv


def test_the_internal_port_stays_a_port() -> None:
    assert nccl_port(30000) == 31000
    assert nccl_port(65000) == 64000


def test_load() -> None:
    assert ENGINE.load(METRICS) == Load(tokens=24584, running=16, queued=0)
    assert ENGINE.load(REALTIME + METRICS) == Load(tokens=30001, running=16, queued=0)
    assert ENGINE.load("") == Load()


def test_deaths_are_explained() -> None:
    found = ENGINE.diagnose("RuntimeError: No accelerator (CUDA, XPU) is available.\n")
    assert found is not None
    assert not found.retry
    assert ENGINE.diagnose("nothing to see") is None


def fields(serve: Serve) -> dict[str, Any]:
    return {name: getattr(serve, name) for name in serve.__struct_fields__}
