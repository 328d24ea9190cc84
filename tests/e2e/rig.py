"""Real processes for the end-to-end tests: the command as a user types it, prompt files, and who is still alive."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sevenfold.ledger import Reader
from sevenfold.node.process import marked

AUDITOR = Path(__file__).parent.parent / "auditor.py"
PATIENCE = 60.0
"""Seconds that anything may take to come true on a busy machine; nothing waits that long where all is well."""


def argv(*words: object) -> list[str]:
    return [sys.executable, "-m", "sevenfold", *map(str, words)]


def sevenfold(*words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    """The command run to its end; its exit code is what the test expects."""
    done = subprocess.run(argv(*words), capture_output=True, text=True, timeout=PATIENCE * 2, check=False)
    assert done.returncode == code, f"{words} -> {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def report(*words: object, code: int = 0) -> Any:
    return json.loads(sevenfold(*words, "--json", code=code).stdout)


def rows(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in sevenfold("rows", run).stdout.splitlines()]


@contextlib.contextmanager
def started(*words: object) -> Iterator[subprocess.Popen[str]]:
    """The command at work; killed at the end if it still is."""
    process = subprocess.Popen(argv(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until(true: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, f"never came true: {what}"
        time.sleep(0.01)


def committed(run: Path) -> int:
    """Samples in the ledger; 0 where there is none yet."""
    if not (run / "ledger" / "layout.json").exists():
        return 0
    with Reader(run) as reader:
        return reader.tally().samples


def until_committed(run: Path, samples: int, patience: float = PATIENCE) -> None:
    until(lambda: committed(run) >= samples, f"{samples} samples are committed", patience)


def nothing_runs(run: Path) -> bool:
    return marked(run) == []


def kill(process: subprocess.Popen[str]) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def write_prompts(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"id": i, "prompt": text}) + "\n" for i, text in enumerate(texts)))
    return path


def write_spec(path: Path, script: dict[str, Any], **more: Any) -> Path:
    """A run file for fake replicas that follow `script`; `more` are further lines of the tables fleet and judge."""
    (path / "script.json").write_text(json.dumps(script))
    fleet = {"engine": "fake", "replicas": 2, "slots": 16, **more.get("fleet", {})}
    lines = ["[fleet]", *(f"{key} = {json.dumps(value)}" for key, value in fleet.items())]
    lines += ["[fleet.flags]", f"script = {json.dumps(str(path / 'script.json'))}"]
    for table, values in more.items():
        if table != "fleet":
            lines += [f"[{table}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    spec = path / "run.toml"
    spec.write_text("\n".join(lines) + "\n")
    return spec


def audited(run: Path, source: Path) -> str:
    """What the auditor says, which shares no code with the product."""
    done = subprocess.run([sys.executable, AUDITOR, run, source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
