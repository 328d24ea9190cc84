"""SGLang: one /generate per question, token ids in and out; its chat API where the prompt is not tokenized yet.

Every sampling parameter is sent: /generate knows nothing of the model's generation_config and stops at 128 tokens by
itself. A request is never cancelled through the API: /abort_request takes every id that begins alike, and a mass abort
kills 0.5.11 to 0.5.13. Written against 0.5.11 and 0.5.23.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from sevenfold.engines import diagnosis, exact, flags, prometheus
from sevenfold.engines.base import (
    Command,
    Diagnosis,
    Exchange,
    Identity,
    Inquiry,
    Load,
    Question,
    Reply,
    Request,
    Serve,
    brief,
    check_status,
)
from sevenfold.engines.openai import OpenAI
from sevenfold.errors import AttemptError
from sevenfold.types import JSON, Completion, FinishReason, Usage

CHAT = OpenAI()

TENSOR_PARALLEL = ("tp-size", "tensor-parallel-size", "tp")

NCCL_OFFSET = 1000
"""Left alone, each server draws a free port and binds it many seconds later: seven that start at once can collide."""

BESIDE = frozenset(
    {
        "custom_labels",
        "custom_logit_processor",
        "extra_key",
        "lora_path",
        "no_logs",
        "priority",
        "return_hidden_states",
        "return_logprob",
        "routed_dp_rank",
        "top_logprobs_num",
    }
)
"""Parameters of /generate that stand beside `sampling_params`, not in it."""


class _Reason(msgspec.Struct, frozen=True):
    type: str
    matched: int | str | list[int] | None = None
    message: str | None = None


class _Meta(msgspec.Struct, frozen=True):
    finish_reason: _Reason
    prompt_tokens: int
    cached_tokens: int | None = None
    spec_accept_length: float | None = None


class _Generated(msgspec.Struct, frozen=True):
    output_ids: tuple[int, ...]
    meta_info: _Meta
    text: str | None = None


class _Memory(msgspec.Struct, frozen=True):
    token_capacity: int | None = None


class _State(msgspec.Struct, frozen=True):
    effective_max_running_requests_per_dp: int | None = None
    memory_usage: _Memory = _Memory()


class _Server(msgspec.Struct, frozen=True):
    model_path: str = ""
    served_model_name: str | None = None
    context_length: int | None = None
    max_req_input_len: int | None = None
    max_total_num_tokens: int | None = None
    version: str = ""
    internal_states: tuple[_State, ...] = ()


Wire = TypeVar("Wire")

GENERATED = msgspec.json.Decoder(_Generated)
SERVER = msgspec.json.Decoder(_Server)


class SGLang:
    name = "sglang"
    ready_path = "/health"
    metrics_path: str | None = "/metrics"

    def command(self, serve: Serve) -> Command:
        given = flags.given(serve.flags)
        ours: dict[str, flags.Value] = {
            "model-path": serve.model,
            "served-model-name": serve.model_name,
            "host": "127.0.0.1",
            "port": serve.port,
        }
        usual: dict[str, flags.Value] = {"nccl-port": nccl_port(serve.port), "enable-metrics": True}
        if serve.context:
            usual["context-length"] = serve.context
        gpus = len(serve.gpu.split(",")) if serve.gpu else 1
        if gpus > 1 and not any(name in given for name in TENSOR_PARALLEL):
            usual["tp-size"] = gpus
        argv = flags.argv({**ours, **usual, **given, **ours})
        return Command((serve.python, "-m", "sglang.launch_server", *argv))

    def identify(self) -> Inquiry:
        reply = yield Request("/server_info")
        if reply.status == 404:  # its older name
            reply = yield Request("/get_server_info")
        said = _decode(reply, SERVER)
        states = said.internal_states
        # max_running_requests at the top is the flag; the schedulers' own states know what came of it.
        return Identity(
            model=said.served_model_name or said.model_path,
            slots=_sum(state.effective_max_running_requests_per_dp for state in states),
            context=said.context_length or said.max_req_input_len,
            version=said.version,
            kv_tokens=_sum(state.memory_usage.token_capacity for state in states) or said.max_total_num_tokens,
        )

    def exchange(self, question: Question) -> Exchange:
        if question.prompt_token_ids is None:
            extra = {"rid": question.request_id, **question.sampling.extra}
            sampling = msgspec.structs.replace(question.sampling, extra=extra)
            return (yield from CHAT.exchange(msgspec.structs.replace(question, sampling=sampling)))
        parameters, beside = _sampling(question)
        body: JSON = {
            "input_ids": question.prompt_token_ids,
            "sampling_params": parameters,
            "rid": question.request_id,
            **beside,
        }
        reply = yield Request("/generate", msgspec.json.encode(body))
        return _completion(_decode(reply, GENERATED), question)

    def load(self, metrics: str) -> Load:
        # generation_tokens_total grows when a request ends, in steps: it stands still while long thoughts are written.
        tokens = prometheus.total(metrics, "sglang:realtime_tokens_total", mode="decode")
        if tokens is None:
            tokens = prometheus.total(metrics, "sglang:generation_tokens_total")
        return Load(
            tokens=tokens,
            running=prometheus.total(metrics, "sglang:num_running_reqs"),
            queued=prometheus.total(metrics, "sglang:num_queue_reqs"),
        )

    def diagnose(self, log_tail: str) -> Diagnosis | None:
        return diagnosis.diagnose(self.name, log_tail)


def nccl_port(port: int) -> int:
    """The internal port that goes with an HTTP port: as free as that one must be."""
    return port + NCCL_OFFSET if port + NCCL_OFFSET < 65536 else port - NCCL_OFFSET


def _sampling(question: Question) -> tuple[JSON, JSON]:
    """(sampling_params, what stands beside them)."""
    asked = question.sampling
    parameters: JSON = {
        "max_new_tokens": asked.max_tokens,
        "temperature": asked.temperature,
        "top_p": asked.top_p,
        "top_k": asked.top_k if asked.top_k > 0 else -1,
        "min_p": asked.min_p,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
        "repetition_penalty": 1.0,
        "ignore_eos": False,
        # The text must be what the tokens say: special tokens in an answer are a fault to be seen.
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
    }
    if question.end_tokens:
        parameters["stop_token_ids"] = sorted(question.end_tokens)
    if asked.seed is not None:
        parameters["sampling_seed"] = asked.seed
    beside: JSON = {}
    for name, value in asked.extra.items():
        (beside if name in BESIDE else parameters)[name] = value
    return parameters, beside


def _completion(said: _Generated, question: Question) -> Completion:
    finish, matched = _finish(said.meta_info.finish_reason)
    ends: Mapping[int, str] = {}
    if not question.sampling.extra.get("ignore_eos"):
        ends = question.end_tokens if matched is None else {matched: "", **question.end_tokens}
    ids, behind = exact.cut(said.output_ids, ends)
    text = said.text or ""  # a server without a tokenizer gives ids alone
    reasoning, answer = exact.split(text if behind is None else exact.cut_text(text, behind), question.rendered_prompt)
    return Completion(
        answer=answer,
        reasoning=reasoning,
        finish_reason="stop" if behind is not None else exact.finish_of(ids, ends, finish),
        usage=Usage(
            prompt_tokens=said.meta_info.prompt_tokens,
            completion_tokens=len(ids),
            cached_tokens=said.meta_info.cached_tokens,
        ),
        model=question.model,
        prompt_token_ids=question.prompt_token_ids,
        completion_token_ids=ids,
        acceptance_length=said.meta_info.spec_accept_length,
        rendered_prompt=question.rendered_prompt,
    )


def _finish(reason: _Reason) -> tuple[FinishReason, int | None]:
    """How it ended, and the token that ended it. AttemptError where HTTP 200 hides a failure."""
    if reason.type == "abort":
        raise AttemptError(f"the engine aborted the request: {reason.message or 'no reason given'}", "abort")
    if reason.matched == "NaN happened":
        raise AttemptError("the engine computed NaN and stopped there", "nan")
    if reason.type not in ("stop", "length"):
        raise AttemptError(f"an unknown finish reason: {reason.type!r}", "malformed")
    return reason.type, reason.matched if isinstance(reason.matched, int) else None


def _decode(reply: Reply, decoder: "msgspec.json.Decoder[Wire]") -> Wire:
    check_status(reply)
    try:
        return decoder.decode(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise AttemptError(f"not the reply that was promised ({error}): {brief(reply.body)}", "malformed") from None


def _sum(values: Iterable[int | None]) -> int | None:
    """Over data-parallel ranks. None where no rank says."""
    numbers = [number for number in values if number is not None]
    return sum(numbers) if numbers else None
