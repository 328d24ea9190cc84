import pytest

from sevenfold.engines.versions import inside, key
from sevenfold.errors import ConfigError


def test_versions_sort_as_releases_do() -> None:
    written = ["0.5.9", "0.5.11.dev3", "0.5.11a1", "0.5.11b2", "0.5.11rc1", "0.5.11", "0.5.11.post1", "0.5.12", "1"]
    assert sorted(set(written), key=key) == written


@pytest.mark.parametrize("same", ["0.32.0", "0.32", "v0.32.0", "0.32.0+cpu"])
def test_zeros_at_the_end_and_local_parts_do_not_count(same: str) -> None:
    assert key(same) == key("0.32")


@pytest.mark.parametrize(
    ("version", "span", "held"),
    [
        ("0.5.11", ">=0.5.11,<0.5.14", True),
        ("0.5.14", ">=0.5.11,<0.5.14", False),
        ("0.5.11.post1", ">0.5.11", True),
        ("0.5.12", "==0.5.12", True),
        ("0.5.12", "!=0.5.12", False),
        ("0.5.12", "<=0.5.12", True),
        ("0.5.12", "", True),
    ],
)
def test_inside(version: str, span: str, held: bool) -> None:
    assert inside(version, span) is held


def test_what_is_no_version_or_range_is_refused() -> None:
    with pytest.raises(ConfigError, match="'main' is not a version"):
        key("main")
    with pytest.raises(ConfigError, match="is not a range"):
        inside("1", "~1")
