"""Public files as their authors published them, where they lie beside the repository or where SEVENFOLD_DATA points."""

import os
from pathlib import Path

import pytest

from sevenfold.sources import inspect

DATA = Path(os.environ.get("SEVENFOLD_DATA") or Path(__file__).parents[3] / "shared" / "data")
KNOWN = {
    "fastchat_dummy_conversation.json": ({"sharegpt": 500}, 500, 1000),
    "gsm8k_test.jsonl": ({"question": 1319}, 1319, 1319),
    "gsm8k_train.jsonl": ({"question": 7473}, 7473, 7473),
    "mt_bench_question.jsonl": ({"turns": 80}, 160, 160),
    "self_instruct_seed_tasks.jsonl": ({"instruction": 175}, 175, 175),
}


@pytest.mark.skipif(not DATA.is_dir(), reason="no data sets here; SEVENFOLD_DATA names their folder")
@pytest.mark.parametrize("name", KNOWN)
def test_a_public_file_reads_as_it_is(name: str) -> None:
    formats, asks, asks_of_all = KNOWN[name]
    found = inspect([DATA / name], "last")
    assert (found.files[0].formats, found.refused, found.asks) == (formats, (), asks)
    assert inspect([DATA / name], "all").asks == asks_of_all
