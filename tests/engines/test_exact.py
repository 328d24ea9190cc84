from hypothesis import given
from hypothesis import strategies as st

from sevenfold.engines import exact

ENDS = {7: "<|im_end|>", 8: "<|endoftext|>"}


def test_ids_behind_the_first_end_token_are_cut() -> None:
    assert exact.cut((1, 2, 7, 3, 8), ENDS) == ((1, 2, 7), "<|im_end|>")
    assert exact.cut((1, 2, 7), ENDS) == ((1, 2, 7), None)
    assert exact.cut((1, 2), ENDS) == ((1, 2), None)
    assert exact.cut((), ENDS) == ((), None)


@given(st.lists(st.integers(0, 9)))
def test_what_is_kept_is_a_beginning_with_no_end_token_inside(ids: list[int]) -> None:
    kept, _ = exact.cut(tuple(ids), ENDS)
    assert list(kept) == ids[: len(kept)]
    assert not set(kept[:-1]) & set(ENDS)


def test_the_text_is_cut_at_the_end_token() -> None:
    assert exact.cut_text("yes<|im_end|>\nno", "<|im_end|>") == "yes"
    assert exact.cut_text("yes", "") == "yes"


def test_an_end_token_at_the_limit_is_a_stop() -> None:
    assert exact.finish_of((1, 7), ENDS, "length") == "stop"
    assert exact.finish_of((1, 2), ENDS, "length") == "length"
    assert exact.finish_of((), ENDS, "length") == "length"


def test_a_prompt_that_opened_the_thought_says_so() -> None:
    assert exact.split("a\n</think>\n\nb", "<|im_start|>assistant\n<think>\n") == ("a", "b")
    assert exact.split("<think>\na\n</think>\n\nb", "<|im_start|>assistant\n") == ("a", "b")
    assert exact.split("b", None) == ("", "b")
