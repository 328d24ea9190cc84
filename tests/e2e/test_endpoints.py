"""Endpoints that somebody else started: asked as they are, never started, never stopped."""

import contextlib
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.rig import audited, report, sevenfold, until, write_prompts

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@contextlib.contextmanager
def server(port: int, model: str = "m", script: Path | None = None) -> Iterator[str]:
    argv = [sys.executable, "-m", "sevenfold.engines.fake_server", "--port", str(port), "--model", model]
    argv += ["--script", str(script)] if script else []
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        with contextlib.suppress(OSError):
            return OPENER.open(f"{url}/health", timeout=5).status == 200
        return False

    try:
        until(answers, "the server answers")
        yield url
    finally:
        process.kill()
        process.wait()


def test_two_endpoints_share_the_work_and_live_on(tmp_path: Path, free_ports: list[int]) -> None:
    prompts, run = write_prompts(tmp_path / "in.jsonl", [f"Question {i}?" for i in range(200)]), tmp_path / "run"
    with server(free_ports[0]) as first, server(free_ports[1]) as second:
        sevenfold("run", prompts, "--endpoint", first, "--endpoint", second + "/v1", "--slots", 8, "-o", run)
        assert OPENER.open(f"{first}/health", timeout=5).status == 200
    audited(run, prompts)
    status = report("status", run)
    assert [replica["phase"] for replica in status["replicas"]] == ["ready", "ready"]
    assert status["rows"]["done"] == 200


def test_r24_an_endpoint_with_another_model_refuses_the_run(tmp_path: Path, free_ports: list[int]) -> None:
    prompts = write_prompts(tmp_path / "in.jsonl", ["Question?"])
    with server(free_ports[0]) as right, server(free_ports[1], "stale") as wrong:
        flags = ("--endpoint", right, "--endpoint", wrong, "-o", tmp_path / "run")
        done = sevenfold("run", prompts, *flags, code=2)
        assert f"{wrong} serves 'stale', not 'm'" in done.stderr


def test_an_endpoint_that_is_down_is_left_out_and_said(tmp_path: Path, free_ports: list[int]) -> None:
    prompts, run = write_prompts(tmp_path / "in.jsonl", ["Question?"]), tmp_path / "run"
    with server(free_ports[0]) as up:
        down = f"http://127.0.0.1:{free_ports[1]}"
        done = sevenfold("run", prompts, "--endpoint", up, "--endpoint", down, "-o", run)
    assert f"warning: {down}: left out" in done.stderr
    assert report("status", run)["rows"]["done"] == 1


def test_an_endpoint_that_renders_with_another_template_gets_no_row(tmp_path: Path, free_ports: list[int]) -> None:
    prompts, run, script = (
        write_prompts(tmp_path / "in.jsonl", ["One two?"]),
        tmp_path / "run",
        tmp_path / "script.json",
    )
    script.write_text('{"template": 9}')
    with contextlib.ExitStack() as stack:
        right = [stack.enter_context(server(port)) for port in free_ports[:2]]
        wrong = stack.enter_context(server(free_ports[2], script=script))
        flags = [word for url in (wrong, *right) for word in ("--endpoint", url)]
        done = sevenfold("run", prompts, *flags, "-o", run)
    why = "it renders the first prompt to 11 tokens, the others to 2: another chat template"
    assert f"warning: {wrong}: left out: {why}" in done.stderr
    status = report("status", run)
    assert [replica["url"] for replica in status["replicas"]] == right
    assert status["rows"]["done"] == 1
