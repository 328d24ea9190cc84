import pytest

from sevenfold.audit import text_samples
from sevenfold.audit.foreign import LOOK_AHEAD, split_thought
from sevenfold.errors import ConfigError
from sevenfold.types import JSON, Message, Sample, Usage


def only(row: JSON) -> Sample:
    (found,) = text_samples([row])
    return found


ASKED, THOUGHT = (Message("user", "2+2?"),), "<think>\n2 and 2\n</think>\n\n4"


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": THOUGHT}]},
        {
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "2+2?"}]},
                {"role": "assistant", "content": "4", "reasoning_content": "2 and 2"},
            ]
        },
        {"conversations": [{"from": "human", "value": "2+2?"}, {"from": "gpt", "value": THOUGHT}]},
        {"conversations": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": THOUGHT}]},
        {"prompt": "2+2?", "response": THOUGHT},
        {"question": "2+2?", "answer": "4", "reasoning": "2 and 2"},
        {"instruction": "2+2?", "input": "", "output": "2 and 2\n</think>\n4"},
    ],
    ids=["messages", "parts", "sharegpt", "roles", "prompt", "columns", "instruction"],
)
def test_forms(row: JSON) -> None:
    found = only(row)
    assert (found.messages, found.completion.reasoning, found.completion.answer) == (ASKED, "2 and 2", "4")
    assert (found.thinking, found.completion.finish_reason, found.turns) == (True, "stop", 1)


def test_what_a_row_says_of_itself_is_kept() -> None:
    found = only(
        {"id": 7, "key": "abc", "sample": 2, "prompt": "q", "answer": "a", "finish_reason": "length"}
        | {"usage": {"completion_tokens": 9}}
    )
    assert (found.id, found.key, found.sample, found.completion.finish_reason) == (7, "abc", 2, "length")
    assert (found.completion.usage, found.origin.line) == (Usage(completion_tokens=9), 1)


def test_every_assistant_turn_is_a_sample_and_the_last_one_must_think() -> None:
    said = [("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "<think>x</think>d")]
    first, last = text_samples([{"messages": [{"role": role, "content": text} for role, text in said]}])
    assert (first.turn, first.turns, first.thinking, first.completion.answer) == (0, 2, False, "b")
    assert (last.turn, last.thinking, last.completion.reasoning, last.completion.answer) == (1, True, "x", "d")
    assert [message.content for message in last.messages] == ["a", "b", "c"]
    assert first.key == last.key


def test_thinking_is_expected_once_any_row_thinks() -> None:
    plain, thinker = {"prompt": "q", "response": "a"}, {"prompt": "q", "response": THOUGHT}
    assert [found.thinking for found in text_samples([plain, plain])] == [False, False]
    assert [found.thinking for found in text_samples([plain, thinker])] == [True, True]
    late = [plain] * LOOK_AHEAD + [thinker, plain]
    assert [found.thinking for found in text_samples(late)][-3:] == [False, True, True]


def test_an_empty_thought_is_a_place_for_one() -> None:
    assert only({"prompt": "q", "response": "<think>\n\n</think>\n\nOK."}).thinking
    assert only({"prompt": "q", "response": "OK.", "reasoning": ""}).thinking


def test_tool_calls_and_odd_values() -> None:
    reply: JSON = {"role": "assistant", "content": None, "tool_calls": [{"a": 1}]}
    called = only({"messages": [{"role": "user", "content": "q"}, reply]})
    assert (called.completion.answer, called.completion.tool_calls) == ("", ({"a": 1},))
    odd = only({"id": [1], "prompt": "q", "response": "a", "usage": None, "finish_reason": 3, "sample": "x"})
    assert (odd.id, odd.completion.finish_reason, odd.sample) == (None, "stop", 0)


def test_rows_without_a_reply_are_passed_and_a_file_of_them_refused() -> None:
    mute: JSON = {"messages": [{"role": "user", "content": "q"}]}
    assert len(list(text_samples([mute, {"prompt": "q", "response": "a"}, {"other": 1}]))) == 1
    assert list(text_samples([])) == []
    with pytest.raises(ConfigError, match="no row holds a reply"):
        list(text_samples([mute, {"other": 1}]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4", (None, "4")),
        ("<think>a</think>4", ("a", "4")),
        ("a</think>\n\n4", ("a", "4")),
        ("<think>cut", ("cut", "")),
        ("<think>\n\n</think>\n\nOK.", ("", "OK.")),
        ("a</think>b</think>c", ("a", "b</think>c")),
    ],
)
def test_split_thought(text: str, expected: tuple[str | None, str]) -> None:
    assert split_thought(text) == expected
