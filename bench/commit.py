"""Committed rows per second, rows of 8 KB in groups of 256, against bare JSONL with one fdatasync per group.

    python bench/commit.py [--smoke]

The rival encodes the same rows and keeps nothing but the lines: no key, no lookup, no second writer refused. Both write
to one disk in turns, the ledger's close and its last checkpoint counted in. Goal: at least 0.25 of the rival's rows per
second (median of the rounds' ratios).
"""

import argparse
import hashlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from sevenfold.ledger import Reader, Writer, create
from sevenfold.types import Completion, Message, Origin, Sample, Usage

GOAL = 0.25
GROUP = 256
SIZE = 8_000
"""Bytes of a row: a thought of some 1,500 tokens with its answer."""


def groups(start: int, count: int) -> list[list[Sample]]:
    return [[row(number) for number in range(at, at + GROUP)] for at in range(start, start + count * GROUP, GROUP)]


def row(number: int) -> Sample:
    key = hashlib.blake2b(number.to_bytes(8, "big"), digest_size=16).hexdigest()
    reasoning = (f"Row {number} thinks about sorting a list. " * 250)[: SIZE - 600]
    return Sample(
        key=key,
        id=number,
        sample=0,
        turn=0,
        turns=1,
        messages=(Message("user", f"Question {number}"),),
        completion=Completion("Like so.", reasoning, "stop", Usage(20, 1600), "mock"),
        origin=Origin("in.jsonl", number + 1),
        replica="0",
    )


def ledger(folder: Path, work: list[list[Sample]]) -> float:
    began = time.perf_counter()
    with Writer(folder) as writer:
        for group in work:
            if not all(writer.commit(group)):
                sys.exit("a row was there already")
    return time.perf_counter() - began


def jsonl(folder: Path, work: list[list[Sample]]) -> float:
    encode = msgspec.json.Encoder().encode
    began = time.perf_counter()
    with (folder / "rows.jsonl").open("ab", buffering=0) as file:
        for group in work:
            file.write(b"".join(encode(sample) + b"\n" for sample in group))
            os.fdatasync(file.fileno())
    return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="only check that both write what they should")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="on the disk to be measured")
    given = parser.parse_args()
    rounds, count = (1, 2) if given.smoke else (given.rounds, 48)
    ratios: list[float] = []
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        create(folder)
        for done in range(rounds):
            work = groups(done * count * GROUP, count)
            rows = count * GROUP
            ours, rival = rows / ledger(folder, work), rows / jsonl(folder, work)
            ratios.append(ours / rival)
            if not given.smoke:
                print(f"  ledger {ours:,.0f} rows/s, JSONL {rival:,.0f} rows/s, ratio {ratios[-1]:.2f}", flush=True)
        if Reader(folder).tally().samples != rounds * count * GROUP:
            sys.exit("rows are missing in the ledger")
    if given.smoke:
        print("bench/commit.py: both wrote every row")
        return 0
    median = statistics.median(ratios)
    print(f"ledger / JSONL {median:.2f}, goal: at least {GOAL}: {'met' if median >= GOAL else 'missed'}")
    return 0 if median >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
