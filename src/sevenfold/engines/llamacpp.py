"""llama.cpp: three requests per question, so that the tokens asked and the tokens answered are the server's own.

The server renders its chat template, tokenises the text, and completes the ids; sampled ids come back as they are, the
end token included. Reasoning of earlier turns is not sent: thinking templates drop it too.
"""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import msgspec

from sevenfold.config import Sampling
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
    decode,
    split_reasoning,
)
from sevenfold.errors import AttemptError
from sevenfold.types import JSON, Completion, FinishReason, Message, Usage, is_array, is_object

SERVER = Path(__file__).with_name("llamacpp_server.py")

FINISH: dict[str, FinishReason] = {"eos": "stop", "word": "stop", "limit": "length"}

DEATHS = (
    (
        "llamacpp_server: port",
        Diagnosis("its port is taken by another process", "set fleet.base_port to another first port"),
    ),
    (
        "xllamacpp cannot be imported",
        Diagnosis("the engine is not installed", "pip install 'sevenfold[llamacpp]'", retry=False),
    ),
    (
        "llamacpp_server: --flag",
        Diagnosis("llama.cpp does not take one of fleet.flags", "see the replica's log for which", retry=False),
    ),
    (
        "failed to allocate",
        Diagnosis("not enough memory for model and slots", "lower fleet.context, fleet.slots or fleet.replicas"),
    ),
    (
        "bad_alloc",
        Diagnosis("not enough memory for model and slots", "lower fleet.context, fleet.slots or fleet.replicas"),
    ),
    (
        "model loading error",
        Diagnosis("llama.cpp cannot load the model", "see that --model is a whole GGUF file", retry=False),
    ),
)
"""What its log says last, most telling first."""


class LlamaCpp:
    name = "llamacpp"
    ready_path = "/health"
    metrics_path: str | None = "/metrics"

    def command(self, serve: Serve) -> Command:
        argv = [serve.python, str(SERVER), "--model", serve.model, "--name", serve.model_name]
        argv += ["--port", str(serve.port), "--slots", str(serve.slots), "--context", str(serve.context)]
        argv += ["--threads", str(serve.threads)]
        argv += [f"--flag={name}={value}" for name, value in serve.flags.items()]
        return Command(tuple(argv))

    def identify(self) -> Inquiry:
        props = decode((yield Request("/props")))
        models = decode((yield Request("/v1/models"))).get("data")
        tags = [str(tag) for model in models or () for tag in model.get("tags") or ()]
        return Identity(
            model=str(props.get("model_alias", "")),
            slots=props.get("total_slots"),
            context=props.get("default_generation_settings", {}).get("n_ctx"),
            template=props.get("chat_template"),
            version=tags[0] if tags else str(props.get("build_info", "")),
        )

    def exchange(self, question: Question) -> Exchange:
        prompt, ids = yield from _prompt(question)
        request: JSON = {
            "prompt": ids,
            "return_tokens": True,
            "cache_prompt": True,
            **_sampling(question.sampling),
        }
        reply = yield _post("/completion", request)
        return _completion(decode(reply), prompt, ids)

    def load(self, metrics: str) -> Load:
        found: dict[str, int] = {}
        for line in metrics.splitlines():
            name, _, value = line.partition(" ")
            if name.startswith("llamacpp:"):
                found[name] = int(float(value))
        return Load(
            tokens=found.get("llamacpp:tokens_predicted_total"),
            running=found.get("llamacpp:requests_processing"),
            queued=found.get("llamacpp:requests_deferred"),
        )

    def diagnose(self, log_tail: str) -> Diagnosis | None:
        return next((diagnosis for sign, diagnosis in DEATHS if sign in log_tail), None)


def _prompt(question: Question) -> Generator[Request, Reply, tuple[str, list[int]]]:
    """The rendered prompt and its tokens."""
    body: JSON = {
        "messages": [_message(message) for message in question.messages],
        "chat_template_kwargs": {"enable_thinking": question.thinking, **question.template_kwargs},
    }
    if question.tools:
        body["tools"] = question.tools
    prompt = decode((yield _post("/apply-template", body))).get("prompt")
    if not isinstance(prompt, str):
        raise AttemptError("/apply-template answered without a prompt", "malformed")
    text = {"content": prompt, "add_special": True, "parse_special": True}
    ids = decode((yield _post("/tokenize", text))).get("tokens")
    if not is_array(ids) or not ids:
        raise AttemptError("/tokenize answered without tokens", "malformed")
    # A template that writes the begin token itself must not get a second one from the tokenizer.
    return prompt, ids[1:] if ids[:1] == ids[1:2] else ids


def _message(message: Message) -> JSON:
    sent: JSON = {"role": message.role, "content": message.content or ""}
    if message.tool_calls:
        sent["tool_calls"] = message.tool_calls
    if message.tool_call_id is not None:
        sent["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        sent["name"] = message.name
    return sent


def _sampling(sampling: Sampling) -> JSON:
    sent: JSON = {
        "n_predict": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
    }
    if sampling.seed is not None:
        sent["seed"] = sampling.seed
    return {**sent, **sampling.extra}


def _completion(said: JSON, prompt: str, ids: list[int]) -> Completion:
    text, tokens, stop = said.get("content"), said.get("tokens"), said.get("stop_type")
    finish = FINISH.get(str(stop))
    if not isinstance(text, str) or not is_array(tokens) or finish is None:
        raise AttemptError(f"/completion answered without content, tokens or a known stop ({stop!r})", "malformed")
    reasoning, answer = split_reasoning(text, prompt.rstrip().endswith("<think>"))
    timings = said.get("timings")
    return Completion(
        answer=answer,
        reasoning=reasoning,
        finish_reason=finish,
        usage=Usage(
            prompt_tokens=said.get("tokens_evaluated", len(ids)),
            completion_tokens=said.get("tokens_predicted", len(tokens)),
            cached_tokens=timings.get("cache_n") if is_object(timings) else None,
        ),
        model=str(said.get("model", "")),
        prompt_token_ids=tuple(ids),
        completion_token_ids=tuple(tokens),
        rendered_prompt=prompt,
    )


def _post(path: str, body: Any) -> Request:
    return Request(path, msgspec.json.encode(body))
