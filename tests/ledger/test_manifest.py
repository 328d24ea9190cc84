from pathlib import Path

import pytest

from sevenfold.errors import ConfigError
from sevenfold.ledger import Manifest, read_manifest, write_manifest

MANIFEST = Manifest(
    version="0.1.0",
    created="2026-01-01T00:00:00+00:00",
    fingerprint="0123456789ab",
    asked={"sampling": {"top_p": 0.95}},
    model={"name": "m"},
    host="node1",
)


def test_it_reads_back_as_written(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    assert read_manifest(tmp_path) == MANIFEST


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a manifest of sevenfold"),
        (b"{}", "not a manifest of sevenfold"),
        (b'{"format": 1}', "not a manifest of sevenfold"),
        (b"\xff\xfe", "not a manifest of sevenfold"),
        (b'{"format": 2, "something": "new"}', "format 2; this sevenfold reads formats up to 1"),
    ],
)
def test_what_is_not_ours_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        read_manifest(tmp_path)


def test_where_none_lies(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run lies here"):
        read_manifest(tmp_path)


def test_one_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        read_manifest(tmp_path)
