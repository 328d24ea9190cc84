import msgspec

from sevenfold.shards import messages_row
from sevenfold.types import Message
from tests.shards.samples import conversation, sample


def turn(n: int) -> list[dict[str, str]]:
    return [
        {"role": "user", "content": f"question {n} 猫"},
        {"role": "assistant", "content": f"answer {n}", "reasoning_content": "a thought"},
    ]


def test_one_turn() -> None:
    assert messages_row([sample()]) == {
        "id": "q1",
        "key": "0" * 32,
        "sample": 0,
        "messages": turn(0),
        "finish_reason": "stop",
        "usage": {"prompt_tokens": 10, "completion_tokens": 20},
        "model": "m",
        "verdict": "ok",
        "thinking": True,
        "turns": 1,
        "turns_asked": 1,
    }


def test_every_generated_turn_has_its_own_thought() -> None:
    row = messages_row(conversation(3))
    assert row is not None
    assert row["messages"] == [*turn(0), *turn(1), *turn(2)]
    assert (row["turns"], row["turns_asked"], row["usage"]["completion_tokens"]) == (3, 3, 22)


def test_answers_of_the_input_stay_as_history() -> None:
    start = (Message("system", "Be brief."), Message("user", "Hi"), Message("assistant", "Hello"))
    row = messages_row(conversation(2, start))
    assert row is not None
    assert row["messages"][:3] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
    ]
    assert row["messages"][3:] == [*turn(0), *turn(1)]


def test_a_conversation_ends_before_its_first_bad_turn() -> None:
    turns = conversation(3)
    flagged = [turns[0], msgspec.structs.replace(turns[1], flags=("truncated",)), turns[2]]
    missing = [turns[0], turns[2]]
    for cut in (flagged, missing, turns[:1]):
        row = messages_row(cut)
        assert row is not None
        assert (row["messages"], row["turns"], row["turns_asked"]) == (turn(0), 1, 3)


def test_nothing_good_is_no_row() -> None:
    assert messages_row([]) is None
    assert messages_row([sample(flags=("empty",))]) is None
    assert messages_row(conversation(2)[1:]) is None


def test_tools_and_calls_travel_along_and_no_thought_leaves_no_field() -> None:
    call = {"id": "c1", "function": {"name": "now", "arguments": "{}"}}
    row = messages_row([sample(reasoning="", tools=({"type": "function"},), tool_calls=(call,))])
    assert row is not None
    assert row["tools"] == [{"type": "function"}]
    assert row["messages"][-1] == {"role": "assistant", "content": "answer 0", "tool_calls": [call]}
