"""CPU seconds per 1,000 completions of a whole run (read, ask, judge, commit), against the reference driver and
aiohttp.

    python bench/drive.py [--smoke]

Rivals, same mock, same run, interleaved: bench/peers/ref_driver.py (a hand-written HTTP client, JSONL + fdatasync, no
checks: the floor) and bare aiohttp that keeps nothing. Start-up is taken out: the cost is the slope between a short and
a long run. Goal: at most 4 times the reference driver at 64 and at 512 in flight (median of the ratios).
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from rig import PEERS, build_mock, cpu_seconds, mock, write_prompts

GOAL = 4.0
FIRST, LAST = 1_000, 6_000
Command = Callable[[str, int, Path, int, Path], list[str]]


def ours(url: str, in_flight: int, prompts: Path, _rows: int, out: Path) -> list[str]:
    settings = ["--set", "judge.limits.duplicate=1.0"]  # the mock gives everyone the same answer
    run = [sys.executable, "-m", "sevenfold", "run", str(prompts), "-o", str(out / "run"), "--endpoint", url]
    return [*run, "--slots", str(in_flight), "--model", "mock", "--quiet", "--thinking", *settings]


def reference(url: str, in_flight: int, prompts: Path, rows: int, out: Path) -> list[str]:
    return [sys.executable, str(PEERS / "ref_driver.py"), url, str(in_flight), str(prompts), str(out), str(rows)]


def bare(url: str, in_flight: int, prompts: Path, rows: int, _out: Path) -> list[str]:
    return [sys.executable, str(PEERS / "bare_aiohttp.py"), url, str(in_flight), str(prompts), str(rows)]


DRIVERS: dict[str, Command] = {"sevenfold": ours, "reference": reference, "aiohttp": bare}


def cost(name: str, port: int, in_flight: int, counts: tuple[int, int], folder: Path) -> float:
    """CPU seconds per 1,000 completions between the shorter and the longer run."""
    seconds: list[float] = []
    for rows in counts:
        with tempfile.TemporaryDirectory(dir=folder) as out:
            prompts = Path(out) / "in.jsonl"
            write_prompts(prompts, rows)
            argv = DRIVERS[name](f"http://127.0.0.1:{port}", in_flight, prompts, rows, Path(out))
            seconds.append(cpu_seconds(argv, Path(out))[0])
    return (seconds[1] - seconds[0]) / (counts[1] - counts[0]) * 1000


def measure(program: Path, in_flight: int, latency: float, rounds: int, folder: Path) -> float:
    ratios: dict[str, list[float]] = {"reference": [], "aiohttp": []}
    for _ in range(rounds):
        with mock(program, latency, 0.3) as port:
            costs = {name: cost(name, port, in_flight, (FIRST, LAST), folder) for name in DRIVERS}
        for rival, found in ratios.items():
            found.append(costs["sevenfold"] / costs[rival])
        print(f"  {in_flight} in flight: " + ", ".join(f"{name} {c:.3f}" for name, c in costs.items()), flush=True)
    medians = {rival: statistics.median(found) for rival, found in ratios.items()}
    print(
        f"{in_flight} in flight: sevenfold / reference {medians['reference']:.2f}, / aiohttp {medians['aiohttp']:.2f}"
    )
    return medians["reference"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="only check that all drivers run")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = build_mock(folder)
        if given.smoke:
            with mock(program, 5, 0.3) as port:
                for driver in DRIVERS:
                    cost(driver, port, 16, (50, 200), folder)
            print("bench/drive.py: all three drivers ran")
            return 0
        print("CPU seconds per 1,000 completions")
        worst = max(measure(program, n, latency, given.rounds, folder) for n, latency in ((64, 500), (512, 1000)))
    print(f"goal: at most {GOAL} times the reference driver: {'met' if worst <= GOAL else 'missed'}")
    return 0 if worst <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
