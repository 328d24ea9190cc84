import random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.sources.formats import as_draft
from sevenfold.sources.keys import SIZE, content_key, twin_key

TEXT = st.text(min_size=1).filter(str.strip)
IDS = st.none() | st.integers() | st.text()
ROWS = st.fixed_dictionaries(
    {
        "id": IDS,
        "messages": st.lists(st.fixed_dictionaries({"role": st.just("user"), "content": TEXT}), min_size=1, max_size=3),
        "tools": st.lists(st.dictionaries(TEXT, st.integers() | TEXT), max_size=2),
    }
)


def shuffled(value: object, order: random.Random) -> object:
    """The same JSON with every object's keys in another order."""
    if isinstance(value, list):
        return [shuffled(item, order) for item in value]
    if isinstance(value, dict):
        return {key: shuffled(value[key], order) for key in order.sample(list(value), len(value))}
    return value


@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_json_keys_does_not_matter(row: dict[str, object], order: random.Random) -> None:
    assert content_key(as_draft(shuffled(row, order), "last")) == content_key(as_draft(row, "last"))


@given(ROWS, ROWS)
def test_two_rows_share_a_key_exactly_when_they_ask_the_same(one: dict[str, object], other: dict[str, object]) -> None:
    first, second = as_draft(one, "last"), as_draft(other, "last")
    asked = [msgspec.json.encode(draft, order="sorted") for draft in (first, second)]
    assert (content_key(first) == content_key(second)) == (asked[0] == asked[1])


@given(ROWS)
def test_columns_that_say_nothing_do_not_matter(row: dict[str, object]) -> None:
    assert content_key(as_draft({**row, "score": 3, "answer": "old"}, "last")) == content_key(as_draft(row, "last"))


def test_the_type_of_an_id_matters() -> None:
    keys = {content_key(as_draft({"id": found, "prompt": "Hi"}, "last")) for found in (1, "1", None, "null", 2)}
    assert len(keys) == 5


def test_old_answers_do_not_matter() -> None:
    asked = {"role": "user", "content": "2+2?"}
    rows = [{"messages": [asked, {"role": "assistant", "content": old}]} for old in ("4", "5")]
    assert len({content_key(as_draft(row, "last")) for row in rows}) == 1


def test_the_key_of_a_row_is_the_same_for_ever() -> None:
    """Ledgers on disk are matched by it: a change here must come with a new format of the run."""
    row = {"id": "a", "messages": [{"role": "user", "content": "Grüß dich"}], "tools": [{"type": "function"}]}
    assert content_key(as_draft(row, "last")).hex() == "c7c9a161bff019d2852e5a3cdcee88bf"


@given(st.binary(min_size=SIZE, max_size=SIZE), st.integers(1, 2**40), st.integers(1, 2**40))
def test_twins_are_told_apart_by_their_count(content: bytes, one: int, other: int) -> None:
    assert twin_key(content, 0) == content
    assert len(twin_key(content, one)) == SIZE
    assert (twin_key(content, one) == twin_key(content, other)) == (one == other)
