"""A program to be killed: committer.py RUN FIRST commits batches of seven rows without end.

It prints, after each commit has returned, how many rows stand."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from sevenfold.ledger import Writer
from tests.ledger.rows import sample

next_row = int(sys.argv[2])
with Writer(Path(sys.argv[1])) as writer:
    while True:
        writer.commit([sample(number, answer="x" * 3000) for number in range(next_row, next_row + 7)])
        next_row += 7
        print(next_row, flush=True)
