from pathlib import Path

import pytest

from sevenfold.ledger import create


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder with an empty ledger of one file."""
    create(tmp_path)
    return tmp_path
