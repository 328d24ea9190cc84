"""vLLM: its chat API with `return_token_ids`, so that prompt and completion come back as the ids that were used.

It renders the prompt itself. To give a request up, close its connection. Written against 0.32 and 0.33, CPU and CUDA.
"""

import msgspec

from sevenfold.engines import diagnosis, exact, flags, prometheus
from sevenfold.engines.base import (
    Command,
    Diagnosis,
    Exchange,
    Inquiry,
    Load,
    Question,
    Request,
    Serve,
    decode,
)
from sevenfold.engines.openai import OpenAI
from sevenfold.types import JSON, Completion

CHAT = OpenAI()

TENSOR_PARALLEL = ("tensor-parallel-size", "tp")


class VLLM:
    name = "vllm"
    ready_path = "/health"
    metrics_path: str | None = "/metrics"

    def command(self, serve: Serve) -> Command:
        given = flags.given(serve.flags)
        ours: dict[str, flags.Value] = {
            "served-model-name": serve.model_name,
            "host": "127.0.0.1",
            "port": serve.port,
        }
        usual: dict[str, flags.Value] = {"max-model-len": serve.context} if serve.context else {}
        gpus = len(serve.gpu.split(",")) if serve.gpu else 1
        if gpus > 1 and not any(name in given for name in TENSOR_PARALLEL):
            usual["tensor-parallel-size"] = gpus
        # The module behind the console script `vllm`: a virtual environment's scripts may have been moved, its
        # interpreter is what we were given.
        argv = (serve.python, "-m", "vllm.entrypoints.cli.main", "serve", serve.model)
        argv += flags.argv({**ours, **usual, **given, **ours})
        return Command(argv, {} if serve.gpu else _cpu(serve))

    def identify(self) -> Inquiry:
        served = yield from CHAT.identify()
        version = decode((yield Request("/version"))).get("version", "")
        return msgspec.structs.replace(served, version=str(version))

    def exchange(self, question: Question) -> Exchange:
        extra: JSON = {"return_token_ids": True, "request_id": question.request_id, **question.sampling.extra}
        sampling = msgspec.structs.replace(question.sampling, extra=extra)
        completion = yield from CHAT.exchange(msgspec.structs.replace(question, sampling=sampling))
        return _ended(completion, question)

    def load(self, metrics: str) -> Load:
        return Load(
            tokens=prometheus.total(metrics, "vllm:generation_tokens_total"),
            running=prometheus.total(metrics, "vllm:num_requests_running"),
            queued=prometheus.total(metrics, "vllm:num_requests_waiting"),
        )

    def diagnose(self, log_tail: str) -> Diagnosis | None:
        return diagnosis.diagnose(self.name, log_tail)


def _cpu(serve: Serve) -> dict[str, str]:
    """Without a GPU it would bind all its threads to cores of its own choice, the same ones in every replica."""
    return {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": str(max(1, serve.threads))}


def _ended(completion: Completion, question: Question) -> Completion:
    """With ids cut at the end token, and an open thought of the rendered prompt split off where no parser did it."""
    reasoning, answer = completion.reasoning, completion.answer
    if not reasoning:
        reasoning, answer = exact.split(answer, question.rendered_prompt)
    ids, finish, usage = completion.completion_token_ids, completion.finish_reason, completion.usage
    if ids is not None and not question.sampling.extra.get("ignore_eos"):
        ids, behind = exact.cut(ids, question.end_tokens)
        if behind is not None:
            answer, finish = exact.cut_text(answer, behind), "stop"
            usage = msgspec.structs.replace(usage, completion_tokens=len(ids))
    return msgspec.structs.replace(
        completion,
        reasoning=reasoning,
        answer=answer,
        finish_reason=finish,
        usage=usage,
        completion_token_ids=ids,
        rendered_prompt=completion.rendered_prompt or question.rendered_prompt,
    )
