from pathlib import Path

import pytest

from sevenfold.engines.diagnosis import diagnose, last_error, last_start

LOGS = Path(__file__).parent / "logs"

SEEN = {
    "context-too-long": (
        "the model bears a context of 262144 tokens, 999999 were asked",
        "--context-length 262144 or less",
        False,
    ),
    "cublas-failure-in-graph-compile": (
        "compiling the piecewise CUDA graphs failed (CUDA error: CUBLAS_STATUS_EXECUTION_FAILED)",
        "--disable-piecewise-cuda-graph",
        False,
    ),
    "gpu-memory-taken-by-neighbour": (
        "another process took GPU memory while this one started: 97.3 GB were left",
        "nvidia-smi shows who holds it",
        True,
    ),
    "gpu-missing": ("the engine sees no GPU", "nvidia-smi -L and CUDA_VISIBLE_DEVICES", False),
    "lfs-pointer": (
        "a weight file is damaged (Error while deserializing header: header too large)",
        "git lfs pull or stage the model again",
        False,
    ),
    "mem-fraction-too-low": (
        "the weights take 51.05 GB and --mem-fraction-static 0.2 of 139.13 free GB allows 27.83",
        "--mem-fraction-static 0.42 or more",
        False,
    ),
    "model-hub-id-offline": (
        "the model is a hub name and https://hub.example cannot be reached from here",
        "stage the model and name its folder",
        False,
    ),
    "model-missing": ("there is no model folder at /models/none", "check the path on this machine", False),
    "oom-at-init": (
        "the states of --max-running-requests 900 do not fit in the 83.9 GB that the weights leave",
        "lower it: sevenfold plan says how many fit",
        False,
    ),
    "out-of-vocab-token-id-kills-server": (
        "a token id outside the model's vocabulary reached the GPU and killed the server",
        "the row in flight must not be sent again",
        True,
    ),
    "port-in-use": (
        "it was told to stop (SIGTERM) while it held port 30000; nothing in its log failed before",
        "a second launch on its port",
        True,
    ),
    "spec-no-buffer": (
        "speculation with the prefix cache on needs the state cache strategy extra_buffer",
        "--disable-radix-cache where prompts share no prefixes",
        False,
    ),
    "unknown-flag": (
        "the engine does not know --mamba-cache-size 80",
        "did you mean --max-mamba-cache-size?",
        False,
    ),
}
"""Deaths of a real SGLang 0.5.11 on one H200."""


def test_every_recorded_death_has_its_line_here() -> None:
    assert {path.stem.removeprefix("sglang-") for path in LOGS.glob("sglang-*.log")} == set(SEEN)


@pytest.mark.parametrize("name", SEEN)
def test_recorded_deaths(name: str) -> None:
    cause, remedy, retry = SEEN[name]
    found = diagnose("sglang", (LOGS / f"sglang-{name}.log").read_text())
    assert found is not None
    assert cause in found.cause
    assert remedy in found.remedy
    assert found.retry is retry
    assert "\n" not in found.cause + found.remedy


def kinds() -> list[tuple[str, str, str]]:
    """Engine, the line that tells, and the cause it must be given; the lines are the engines' own words."""
    lines = (LOGS / "kinds.txt").read_text().splitlines()
    return [(engine, line, cause) for engine, line, cause in (row.split(" | ") for row in lines)]


@pytest.mark.parametrize(("engine", "line", "cause"), kinds())
def test_kinds_of_death_generalise(engine: str, line: str, cause: str) -> None:
    found = diagnose(engine, f"some line\n{line}\nReceived sigquit from a child process.\n")
    assert found is not None
    assert cause in found.cause
    assert found.remedy


def test_an_unknown_death_shows_its_last_error() -> None:
    log = (
        "[2026-12-01 02:21:07] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "scheduler.py", line 3918, in run\n    raise RuntimeError(msg)\n'
        "RuntimeError: the moon is in the wrong house\n"
        "[2026-12-01 02:21:07] Received sigquit from a child process. It usually means the child failed.\nexit 137\n"
    )
    assert diagnose("sglang", log) is None
    assert last_error(log) == "RuntimeError: the moon is in the wrong house"


def test_consequences_are_no_cause() -> None:
    log = "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed: {}\n"
    core = "(EngineCore_0 pid=2) ERROR 12-01 02:21:07 [core.py:700] ValueError: a shape nobody knows\n"
    found = diagnose("vllm", core + log)
    assert found is not None
    assert found.cause == "its engine core failed: ValueError: a shape nobody knows"
    assert last_error(core + log) == "ValueError: a shape nobody knows"


def test_a_warning_of_every_start_is_no_cause() -> None:
    log = "(APIServer pid=7) WARNING 12-01 06:20:47 [u.py:9] It can cause `OSError: [Errno 24] Too many open files`.\n"
    assert diagnose("vllm", log) is None


def test_last_error_of_a_quiet_or_long_or_empty_log() -> None:
    assert last_error("loading\n\nstill loading\n") == "still loading"
    assert last_error("") == ""
    assert len(last_error("error: " + "x" * 900)) == 300


def test_a_death_before_the_last_start_is_not_this_one() -> None:
    old = (LOGS / "sglang-unknown-flag.log").read_text()
    new = (LOGS / "sglang-gpu-missing.log").read_text()
    found = diagnose("sglang", old + new)
    assert found is not None
    assert found.cause == "the engine sees no GPU"


def test_a_banner_and_its_arguments_are_one_start() -> None:
    log = "is still supported, but 'sglang serve' is the recommended\nb\nserver_args=ServerArgs(x)\nc\n"
    assert last_start("sglang", "old\n" + log) == log


def test_what_an_engine_lived_with_is_no_cause() -> None:
    log = "ModuleNotFoundError: No module named 'torchcodec'\n" + "serving\n" * 100
    assert diagnose("sglang", log) is None


def test_memory_without_numbers_still_has_a_remedy() -> None:
    found = diagnose("sglang", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n")
    assert found is not None
    assert found.cause == "the GPU's memory does not hold weights and caches"


def test_a_stop_from_outside_is_told_without_a_port_too() -> None:
    found = diagnose("sglang", "SIGTERM received. signum=None frame=None. Draining requests and shutting down...\n")
    assert found is not None
    assert found.cause == "it was told to stop (SIGTERM); nothing in its log failed before"


def test_a_mass_abort_names_the_version_that_bears_it() -> None:
    log = "  File \"scheduler.py\", line 9, in _handle_abort_req\n    del self.rid_to_state[rid]\nKeyError: '0a1b'\n"
    found = diagnose("sglang", log)
    assert found is not None
    assert "0.5.14" in found.remedy
