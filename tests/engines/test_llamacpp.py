import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator
from typing import Any, TypeVar

import msgspec
import pytest

from sevenfold.config import Sampling
from sevenfold.engines.base import Identity, Load, Question, Reply, Request, Serve
from sevenfold.engines.llamacpp import SERVER, LlamaCpp
from sevenfold.errors import AttemptError, ReplicaError, RowError
from sevenfold.node.models import Model, resolve
from sevenfold.node.ports import free_port
from sevenfold.types import Message, Usage

T = TypeVar("T")
ENGINE = LlamaCpp()
SERVE = Serve("/m.gguf", "m", 9000, None, 2, 4, 512, "/env/bin/python", {"n_batch": 64, "flash": True})
PROMPT = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
COMPLETION = {
    "content": "Hello!",
    "tokens": [19556, 17, 2],
    "stop_type": "eos",
    "model": "smol",
    "tokens_evaluated": 10,
    "tokens_predicted": 3,
    "timings": {"cache_n": 4},
}


def question(**changes: Any) -> Question:
    hello = Question((Message("user", "Hello"),), "smol", Sampling(seed=3), thinking=False, request_id="0" * 32)
    return msgspec.structs.replace(hello, **changes)


def talk(talk: Generator[Request, Reply, T], *answers: Any) -> tuple[list[tuple[str, Any]], T]:
    """What was sent, path and body, and what came of it. An answer is a JSON value, or a Reply."""
    sent: list[tuple[str, Any]] = []
    request = next(talk)
    for answer in answers:
        sent.append((request.path, msgspec.json.decode(request.body) if request.body else None))
        reply = answer if isinstance(answer, Reply) else Reply(200, msgspec.json.encode(answer))
        try:
            request = talk.send(reply)
        except StopIteration as ended:
            return sent, ended.value
    raise AssertionError(f"asks for more: {request.path}")


def ask(asked: Question, completion: Any, prompt: str = PROMPT, ids: Any = (1, 4093, 198)) -> Any:
    return talk(ENGINE.exchange(asked), {"prompt": prompt}, {"tokens": ids}, completion)


def test_a_question_is_rendered_tokenised_and_completed_by_the_server() -> None:
    sent, completion = ask(question(), COMPLETION)
    assert sent == [
        (
            "/apply-template",
            {"messages": [{"role": "user", "content": "Hello"}], "chat_template_kwargs": {"enable_thinking": False}},
        ),
        ("/tokenize", {"content": PROMPT, "add_special": True, "parse_special": True}),
        (
            "/completion",
            {
                "prompt": [1, 4093, 198],
                "return_tokens": True,
                "cache_prompt": True,
                "n_predict": 2048,
                "temperature": 0.6,
                "top_k": 20,
                "top_p": 0.95,
                "min_p": 0.0,
                "seed": 3,
            },
        ),
    ]
    assert (completion.answer, completion.reasoning, completion.finish_reason) == ("Hello!", "", "stop")
    assert completion.usage == Usage(prompt_tokens=10, completion_tokens=3, cached_tokens=4)
    assert completion.prompt_token_ids == (1, 4093, 198)
    assert completion.completion_token_ids == (19556, 17, 2)
    assert (completion.model, completion.rendered_prompt) == ("smol", PROMPT)


def test_what_the_user_adds_goes_along_as_it_is() -> None:
    asked = question(
        sampling=Sampling(extra={"top_k": 5, "dry_multiplier": 0.8}),
        thinking=True,
        template_kwargs={"style": "brief"},
        tools=({"type": "function"},),
    )
    sent, _ = ask(asked, COMPLETION)
    assert sent[0][1]["chat_template_kwargs"] == {"enable_thinking": True, "style": "brief"}
    assert sent[0][1]["tools"] == [{"type": "function"}]
    assert (sent[2][1]["top_k"], sent[2][1]["dry_multiplier"]) == (5, 0.8)
    assert "seed" not in sent[2][1]


def test_history_goes_without_its_reasoning() -> None:
    history = (
        Message("user", "Hello"),
        Message("assistant", None, reasoning="secret", tool_calls=({"id": "a"},)),
        Message("tool", "42", tool_call_id="a", name="f"),
    )
    sent, _ = ask(question(messages=history), COMPLETION)
    assert sent[0][1]["messages"] == [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "a"}]},
        {"role": "tool", "content": "42", "tool_call_id": "a", "name": "f"},
    ]


def test_a_begin_token_is_sent_once() -> None:
    sent, completion = ask(question(), COMPLETION, ids=[1, 1, 4093])
    assert sent[2][1]["prompt"] == [1, 4093]
    assert completion.prompt_token_ids == (1, 4093)
    assert ask(question(), COMPLETION, ids=[7])[1].prompt_token_ids == (7,)


@pytest.mark.parametrize(("stop_type", "finish"), [("eos", "stop"), ("word", "stop"), ("limit", "length")])
def test_finish_reason(stop_type: str, finish: str) -> None:
    assert ask(question(), {**COMPLETION, "stop_type": stop_type})[1].finish_reason == finish


@pytest.mark.parametrize(
    ("prompt", "content"), [(PROMPT + "<think>\n", "Hm.\n</think>\n\nHello!"), (PROMPT, "<think>\nHm.\n</think>Hello!")]
)
def test_reasoning_is_split_whoever_opened_it(prompt: str, content: str) -> None:
    completion = ask(question(), {**COMPLETION, "content": content}, prompt)[1]
    assert (completion.reasoning, completion.answer) == ("Hm.", "Hello!")


def test_counts_that_are_missing_come_from_the_tokens() -> None:
    few = {key: COMPLETION[key] for key in ("content", "tokens", "stop_type")}
    assert ask(question(), few)[1].usage == Usage(prompt_tokens=3, completion_tokens=3)


@pytest.mark.parametrize(
    "answers",
    [
        [{}],
        [{"prompt": PROMPT}, {"tokens": []}],
        [{"prompt": PROMPT}, {"tokens": None}],
        [{"prompt": PROMPT}, {"tokens": [1]}, {**COMPLETION, "stop_type": "none"}],
        [{"prompt": PROMPT}, {"tokens": [1]}, {**COMPLETION, "content": None}],
        [{"prompt": PROMPT}, {"tokens": [1]}, {**COMPLETION, "tokens": None}],
        [{"prompt": PROMPT}, {"tokens": [1]}, Reply(200, b"<html>")],
    ],
)
def test_a_reply_that_is_not_one(answers: list[Any]) -> None:
    with pytest.raises(AttemptError) as error:
        talk(ENGINE.exchange(question()), *answers)
    assert error.value.kind == "malformed"


def test_a_loading_server_is_busy() -> None:
    loading = Reply(503, b'{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}')
    with pytest.raises(ReplicaError, match="Loading model"):
        talk(ENGINE.exchange(question()), loading)


def test_identify() -> None:
    props = {
        "model_alias": "smol",
        "total_slots": 4,
        "default_generation_settings": {"n_ctx": 1024},
        "chat_template": "{{ x }}",
        "build_info": "b0-unknown",
    }
    models = {"data": [{"id": "smol", "tags": ["xllamacpp 2026.10"]}]}
    sent, found = talk(ENGINE.identify(), props, models)
    assert [path for path, _ in sent] == ["/props", "/v1/models"]
    assert found == Identity("smol", 4, 1024, "{{ x }}", "xllamacpp 2026.10")
    assert talk(ENGINE.identify(), props, {})[1].version == "b0-unknown"


def test_load() -> None:
    metrics = (
        "# HELP llamacpp:tokens_predicted_total Number of generation tokens processed\n"
        "# TYPE llamacpp:tokens_predicted_total counter\n"
        "llamacpp:tokens_predicted_total 1234\n"
        "llamacpp:tokens_predicted_seconds_total 1.5\n"
        "llamacpp:requests_processing 3\n"
        "llamacpp:requests_deferred 2\n"
    )
    assert ENGINE.load(metrics) == Load(tokens=1234, running=3, queued=2)
    assert ENGINE.load("") == Load()


def test_command() -> None:
    command = ENGINE.command(SERVE)
    assert command.argv[:2] == ("/env/bin/python", str(SERVER))
    words = (
        "--model /m.gguf --name m --port 9000 --slots 4 --context 512 --threads 2 --flag=n_batch=64 --flag=flash=True"
    )
    assert " ".join(command.argv[2:]) == words


@pytest.mark.parametrize(
    ("log", "remedy", "retry"),
    [
        ("llamacpp_server: port 9000 is taken", "base_port", True),
        ("llamacpp_server: xllamacpp cannot be imported: No module named 'xllamacpp'", "pip install", False),
        ("llamacpp_server: --flag foo: xllamacpp has no such parameter", "log", False),
        ("E srv          init: exiting due to model loading error", "GGUF", False),
        ("ggml_aligned_malloc: failed to allocate\nE exiting due to model loading error", "fleet.slots", True),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "fleet.slots", True),
    ],
)
def test_diagnose(log: str, remedy: str, retry: bool) -> None:
    diagnosis = ENGINE.diagnose(log)
    assert diagnosis
    assert remedy in diagnosis.remedy
    assert diagnosis.retry == retry


def test_an_unknown_death_is_not_explained() -> None:
    assert ENGINE.diagnose("Segmentation fault") is None


# The real server.


@pytest.fixture(scope="module")
def smollm2() -> Model:
    return resolve("")


def serve(model: Model, port: int, *more: str) -> list[str]:
    words = Serve(str(model.path), "smol", port, None, 1, 2, 256, sys.executable)
    return [*ENGINE.command(words).argv, *more]


@pytest.fixture(scope="module")
def url(smollm2: Model) -> Iterator[str]:
    argv = serve(
        smollm2, free_port(0), "--flag=n_batch=128", "--flag=cache_type_k=GGML_TYPE_F16", "--flag=warmup=false"
    )
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout
        said = next(line for line in server.stdout if line.startswith("serving"))
        yield said.split()[-1]
        server.terminate()
        assert server.wait(30) == -15


def over_http(url: str, talk: Generator[Request, Reply, T]) -> T:
    request = next(talk)
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(url + request.path, request.body)) as response:
                reply = Reply(response.status, response.read())
        except urllib.error.HTTPError as error:
            with error:
                reply = Reply(error.code, error.read())
        try:
            request = talk.send(reply)
        except StopIteration as ended:
            return ended.value


@pytest.mark.llamacpp
def test_the_real_server_answers(url: str) -> None:
    asked = question(sampling=Sampling(temperature=0.0, max_tokens=32, seed=1))
    first, second = (over_http(url, ENGINE.exchange(asked)) for _ in range(2))
    assert first.answer
    assert (first.answer, first.completion_token_ids) == (second.answer, second.completion_token_ids)
    assert first.prompt_token_ids
    assert first.prompt_token_ids[:2] == (1, 9690)  # <|im_start|> once, then "system"
    assert first.usage.prompt_tokens == len(first.prompt_token_ids)
    assert first.completion_token_ids
    assert first.usage.completion_tokens == len(first.completion_token_ids)
    assert (first.finish_reason == "stop") == (first.completion_token_ids[-1] == 2)  # the end token is included


@pytest.mark.llamacpp
def test_the_real_server_cuts_at_the_limit(url: str) -> None:
    completion = over_http(url, ENGINE.exchange(question(sampling=Sampling(max_tokens=2))))
    assert completion.finish_reason == "length"
    assert completion.completion_token_ids
    assert len(completion.completion_token_ids) == 2


@pytest.mark.llamacpp
def test_the_real_server_refuses_what_is_too_long(url: str) -> None:
    with pytest.raises(RowError) as error:
        over_http(url, ENGINE.exchange(question(messages=(Message("user", "word " * 400),))))
    assert error.value.kind == "too_long"


@pytest.mark.llamacpp
def test_the_real_server_says_what_it_is_and_does(url: str) -> None:
    found = over_http(url, ENGINE.identify())
    assert (found.model, found.slots, found.context) == ("smol", 2, 256)
    assert found.version.startswith("xllamacpp ")
    assert "im_start" in (found.template or "")
    with urllib.request.urlopen(url + "/metrics") as response:
        load = ENGINE.load(response.read().decode())
    assert load.tokens is not None
    assert (load.running, load.queued) == (0, 0)


@pytest.mark.llamacpp
@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--flag=nonsense=1", "xllamacpp has no such parameter"),
        ("--flag=n_batch=many", "not a value of this parameter"),
        ("--flag=model=x", "use --model"),
        ("--flag=antiprompt=x", "not a value of this parameter"),
        ("--flag=n_batch", "not of the form NAME=VALUE"),
        ("--nonsense", "unrecognized arguments"),
    ],
)
def test_flags_that_it_does_not_take(smollm2: Model, flag: str, said: str) -> None:
    ended = subprocess.run(serve(smollm2, free_port(0), flag), capture_output=True, text=True)
    assert (ended.returncode, said in ended.stderr) == (2, True)


@pytest.mark.llamacpp
def test_a_taken_port_is_refused_in_one_line(smollm2: Model, url: str) -> None:
    port = int(url.rpartition(":")[2])
    ended = subprocess.run(serve(smollm2, port), capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (3, f"llamacpp_server: port {port} is taken\n")


@pytest.mark.llamacpp
def test_a_model_that_is_not_there(smollm2: Model) -> None:
    argv = [re.sub(r".*\.gguf$", "/no/such.gguf", word) for word in serve(smollm2, free_port(0))]
    ended = subprocess.run(argv, capture_output=True, text=True)
    assert ended.returncode == 4
    diagnosis = ENGINE.diagnose(ended.stderr)
    assert diagnosis
    assert not diagnosis.retry
