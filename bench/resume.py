"""Start to first request with 902,087 rows done, and memory independent of the input's length.

    python bench/resume.py [--smoke]

A run folder is filled with N finished rows and a few open ones, then `sevenfold resume` is started against a mock
engine. Rivals in the same run: bench/peers/ref_driver.py, which reads a 16-byte-a-row ledger (the floor), and the start
of sevenfold itself with 100,000 rows. Goals: at most 4 times the reference driver's time to its first request at
902,087 rows, and at most 1.15 times the peak memory of the short run (medians).
"""

import argparse
import contextlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rig import PEERS, build_mock, mock, stats, write_prompts
from sevenfold.ledger import Writer
from sevenfold.sources import Index
from sevenfold.types import Completion, Message, Origin, Sample, Usage

ROWS, SHORT = 902_087, 100_000
OPEN = 64
GOAL_TIME, GOAL_MEMORY = 4.0, 1.15


def ours(url: str, prompts: Path, run: Path) -> list[str]:
    flags = ["--endpoint", url, "--model", "mock", "--slots", "64", "--quiet", "--thinking"]
    return [sys.executable, "-m", "sevenfold", "run", str(prompts), "-o", str(run), *flags]


def fill(folder: Path, rows: int, url: str) -> tuple[Path, Path]:
    """(prompts, run folder) with `rows` finished rows, ready to be gone on with: OPEN rows more are in the file."""
    prompts, run = folder / f"in-{rows}.jsonl", folder / f"run-{rows}"
    write_prompts(prompts, rows + OPEN)
    with Starting(ours(url, prompts, run)) as driver:  # makes the folder, the manifest and the index as a user would
        index = Index(run / "index.sqlite")
        while not index.complete:
            driver.check()
            time.sleep(0.05)
    with Writer(run) as writer:
        after = 0
        while chunk := index.chunk(after, 5_000):
            after = chunk[-1].ordinal
            writer.commit([sample(entry.key) for entry in chunk if entry.ordinal <= rows])
    return prompts, run


def sample(key: str) -> Sample:
    completion = Completion("An answer.", "A thought.", "stop", Usage(180, 2000))
    return Sample(key, None, 0, 0, 1, (Message("user", "A question."),), completion, Origin("in.jsonl", 1))


class Starting:
    """A driver being watched from its start; killed at the end."""

    def __init__(self, argv: list[str]) -> None:
        self._argv = argv

    def __enter__(self) -> "Starting":
        self._began = time.perf_counter()
        self._process = subprocess.Popen(self._argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def check(self) -> None:
        if self._process.poll() not in (None, 0, 4, 5):
            sys.exit(
                f"{self._argv} ended with {self._process.returncode}: {(self._process.stderr or sys.stdin).read()}"
            )

    def until_asked(self, port: int, before: int) -> tuple[float, float]:
        """(seconds to the first request, peak MiB by then)."""
        while stats(port)["received"] == before:
            self.check()
            time.sleep(0.005)
        seconds = time.perf_counter() - self._began
        peak = 0.0
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{self._process.pid}/status").read_text()
            peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024
        return seconds, peak


def reference(folder: Path, prompts: Path, rows: int, url: str) -> list[str]:
    out = folder / "reference"
    out.mkdir(exist_ok=True)
    (out / "out.jsonl").write_bytes(b"")
    with (out / "done.led").open("wb") as ledger:
        for i in range(rows):
            ledger.write(struct.pack("<QQ", i, 0))
    return [sys.executable, str(PEERS / "ref_driver.py"), url, "64", str(prompts), str(out), str(rows + OPEN)]


def measure(argv: list[str], port: int) -> tuple[float, float]:
    with Starting(argv) as driver:
        return driver.until_asked(port, stats(port)["received"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="only check that a filled run is gone on with")
    given = parser.parse_args()
    rows, short, rounds = (2_000, 100, 1) if given.smoke else (ROWS, SHORT, 3)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with mock(build_mock(folder), 3_600_000, 0) as port:  # nothing ever ends: the open rows stay open
            url = f"http://127.0.0.1:{port}"
            long_run, short_run = fill(folder, rows, url), fill(folder, short, url)
            times: dict[str, list[tuple[float, float]]] = {"long": [], "short": [], "reference": []}
            for _ in range(rounds):
                times["long"].append(measure(ours(url, *long_run), port))
                times["short"].append(measure(ours(url, *short_run), port))
                times["reference"].append(measure(reference(folder, long_run[0], rows, url), port))
    if given.smoke:
        print("bench/resume.py: both runs went on")
        return 0
    median = {name: tuple(statistics.median(one) for one in zip(*found, strict=True)) for name, found in times.items()}
    for driver, (seconds, peak) in median.items():
        print(f"  {driver}: {seconds:.2f} s to the first request, {peak:.0f} MiB")
    time_ratio = statistics.median(a[0] / b[0] for a, b in zip(times["long"], times["reference"], strict=True))
    memory = statistics.median(a[1] / b[1] for a, b in zip(times["long"], times["short"], strict=True))
    met = time_ratio <= GOAL_TIME and memory <= GOAL_MEMORY
    print(
        f"time / reference {time_ratio:.2f} (goal {GOAL_TIME}), memory long / short {memory:.2f} (goal {GOAL_MEMORY})"
    )
    print("met" if met else "missed")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
