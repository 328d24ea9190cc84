"""What the benchmarks share: the C mock engine, prompt files, and CPU time of a child process."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
PEERS = HERE / "peers"
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def build_mock(folder: Path) -> Path:
    """bench/peers/mock.c compiled into `folder`. Ends the benchmark with a hint where there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        sys.exit("this benchmark compiles a small C server. -> apt-get install gcc libc6-dev")
    program = folder / "mock"
    subprocess.run([compiler, "-O2", "-w", "-o", program, PEERS / "mock.c", "-lm"], check=True)
    return program


@contextlib.contextmanager
def mock(program: Path, latency_ms: float, sigma: float) -> Iterator[int]:
    """A running mock engine's port. Latency is log-normal with this mean; 0 answers at once."""
    port = free_port()
    process = subprocess.Popen([program, str(port), str(latency_ms), str(sigma)])
    try:
        for _ in range(200):
            with contextlib.suppress(OSError):
                stats(port)
                break
            time.sleep(0.02)
        yield port
    finally:
        process.kill()
        process.wait()


def stats(port: int) -> dict[str, int]:
    with OPENER.open(f"http://127.0.0.1:{port}/stats", timeout=10) as reply:
        return json.loads(reply.read())


def write_prompts(path: Path, rows: int) -> None:
    """Prompts of about 170 tokens in the shape every driver here reads."""
    filler = "Explain how to sort a list. " * 25
    with path.open("w") as file:
        for i in range(rows):
            turn = {"role": "user", "content": f"Question {i}: {filler}"}
            file.write(json.dumps({"id": f"r{i:07d}", "conversations": [turn]}) + "\n")


def cpu_seconds(argv: list[str], cwd: Path, codes: tuple[int, ...] = (0,)) -> tuple[float, float]:
    """(CPU seconds of the process and its children, wall seconds). Ends the benchmark on any other exit code."""
    log = cwd / "log.txt"
    with log.open("wb") as out:
        began = time.perf_counter()
        process = subprocess.Popen(argv, cwd=cwd, stdout=out, stderr=out, env={**os.environ, "NO_COLOR": "1"})
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in codes:
        sys.exit(f"{argv} ended with {process.returncode}:\n{log.read_text()[-3000:]}")
    return usage.ru_utime + usage.ru_stime, wall
