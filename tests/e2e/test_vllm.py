"""The same with real vLLM on the CPU: opt-in, since its environment is large.

    SEVENFOLD_VLLM=ENV/bin/python SEVENFOLD_VLLM_MODEL=FOLDER make test-vllm

ENV holds vLLM built for the CPU, FOLDER a small Hugging Face model with a chat template (SmolLM2-135M-Instruct).
"""

import os
import signal
from pathlib import Path

import psutil
import pytest

from sevenfold.ledger import Reader
from sevenfold.node.process import marked
from tests.e2e.rig import audited, nothing_runs, report, started, until_committed

PYTHON, MODEL = os.environ.get("SEVENFOLD_VLLM"), os.environ.get("SEVENFOLD_VLLM_MODEL")
DATA = Path(os.environ.get("SEVENFOLD_DATA") or Path(__file__).parents[3] / "shared" / "data")
PROMPTS = DATA / "mt_bench_question.jsonl"

SPEC = """
model = "{model}"
[fleet]
engine = "vllm"
replicas = 2
python = "{python}"
context = 2048
slots = 8
[fleet.flags]
enforce-eager = true
dtype = "bfloat16"
[fleet.env]
VLLM_CPU_KVCACHE_SPACE = "2"
[sampling]
max_tokens = 16
[conversation]
turns = "all"
thinking = false # SmolLM2 does not think
[judge.limits]
truncated = 1.0 # few tokens on purpose
trivial = 1.0
"""


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not (PYTHON and MODEL and PROMPTS.is_file()), reason="SEVENFOLD_VLLM and _MODEL name no vLLM")
def test_mt_bench_token_exact_with_an_engine_core_killed(tmp_path: Path) -> None:
    spec, run = tmp_path / "run.toml", tmp_path / "run"
    spec.write_text(SPEC.format(model=MODEL, python=PYTHON))
    with started("run", PROMPTS, "-c", spec, "-o", run) as driver:
        until_committed(run, 30, patience=900)
        replica = next(one.process.pid for one in marked(run) if one.replica == "0")
        os.kill(engine_core(replica), signal.SIGKILL)
        _, said = driver.communicate(timeout=2400)
        assert driver.returncode == 0, said
    audited(run, PROMPTS)
    status = report("status", run)
    assert status["rows"] == {"total": 80, "done": 80, "failed": 0, "refused": 0, "in_flight": 0}
    assert sum(replica["restarts"] for replica in status["replicas"]) == 1
    with Reader(run) as reader:
        for outcome in reader.outcomes():
            completion = outcome.completion
            assert len(completion.completion_token_ids) == completion.usage.completion_tokens
            assert len(completion.prompt_token_ids) == completion.usage.prompt_tokens
    assert nothing_runs(run)


def engine_core(replica: int) -> int:
    """The child that holds the model: vLLM names it VLLM::EngineCore."""
    family = [psutil.Process(replica), *psutil.Process(replica).children(recursive=True)]
    return next(one.pid for one in family if "EngineCore" in " ".join([one.name(), *one.cmdline()]))
