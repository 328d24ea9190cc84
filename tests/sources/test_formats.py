import pytest

from sevenfold.sources.formats import COLUMNS, FORMATS, as_draft, drafted
from sevenfold.sources.messages import Refused
from sevenfold.sources.read import Record
from sevenfold.types import Message

CALL = {"id": "c", "type": "function", "function": {"name": "w", "arguments": '{"city": "Oslo"}'}}
SENT_CALL = {"id": "c", "type": "function", "function": {"name": "w", "arguments": '{"city":"Oslo"}'}}


def user(text: str) -> Message:
    return Message("user", text)


def system(text: str) -> Message:
    return Message("system", text)


def assistant(text: str) -> Message:
    return Message("assistant", text)


def said(*turns: str) -> list[dict[str, str]]:
    """'u:Hi' is a user's message, 'a:' the assistant's, 's:' the system's."""
    roles = {"u": "user", "a": "assistant", "s": "system"}
    return [{"role": roles[turn[0]], "content": turn[2:]} for turn in turns]


def refusal(value: object) -> str:
    with pytest.raises(Refused) as caught:
        as_draft(value, "last")
    return caught.value.reason


@pytest.mark.parametrize(
    ("row", "form", "last"),
    [
        ({"messages": said("u:Hi", "a:old")}, "messages", (user("Hi"),)),
        ({"conversations": [{"from": "human", "value": "Hi"}]}, "sharegpt", (user("Hi"),)),
        ({"conversation": [{"from": "human", "value": "Hi"}]}, "sharegpt", (user("Hi"),)),
        ({"conversations": '[{"from": "human", "value": "Hi"}]'}, "sharegpt", (user("Hi"),)),
        ({"body": {"messages": said("u:Hi")}, "url": "/v1/chat/completions"}, "batch", (user("Hi"),)),
        ({"turns": ["Hi"]}, "turns", (user("Hi"),)),
        ({"prompt": "Hi"}, "prompt", (user("Hi"),)),
        ({"prompt": said("s:Be brief.", "u:Hi")}, "prompt", (system("Be brief."), user("Hi"))),
        ({"question": "Hi", "answer": "old"}, "question", (user("Hi"),)),
        ({"instruction": "Count.", "input": "abc", "output": "3"}, "instruction", (user("Count.\n\nabc"),)),
        ({"instruction": "Count.", "input": " ", "output": "3"}, "instruction", (user("Count."),)),
        ({"instruction": "Count.", "context": "abc"}, "instruction", (user("Count.\n\nabc"),)),
        ({"instruction": "Count.", "instances": [{"input": "abc"}]}, "instruction", (user("Count.\n\nabc"),)),
        ({"instruction": "Count.", "instances": [{"input": ""}]}, "instruction", (user("Count."),)),
        ({"question": "Hi", "system_prompt": "In verse."}, "question", (system("In verse."), user("Hi"))),
        ({"messages": said("s:A", "u:Hi"), "system": "A"}, "messages", (system("A"), user("Hi"))),
        ({"messages": said("u:Hi"), "system": ""}, "messages", (user("Hi"),)),
        ({"messages": None, "prompt": "Hi", "score": [1, "two"]}, "prompt", (user("Hi"),)),
        ({"prompt": "Hi", "image": None, "images": []}, "prompt", (user("Hi"),)),
        ({"prompt": "Hi", "messages": said("u:Ho")}, "messages", (user("Ho"),)),
    ],
)
def test_every_form_is_read(row: object, form: str, last: tuple[Message, ...]) -> None:
    draft = as_draft(row, "last")
    assert (draft.format, draft.turns) == (form, (last,))


def test_every_form_has_a_column() -> None:
    assert set(COLUMNS.values()) == set(FORMATS)


@pytest.mark.parametrize(
    ("turns", "last", "every"),
    [
        (("u:1", "a:x"), [["u:1"]], [["u:1"]]),
        (("s:S", "u:1", "a:x", "u:2", "a:y"), [["s:S", "u:1", "a:x", "u:2"]], [["s:S", "u:1"], ["u:2"]]),
        (("u:1", "a:x", "u:2"), [["u:1", "a:x", "u:2"]], [["u:1"], ["u:2"]]),
        (("u:1", "u:2", "a:x", "a:y", "u:3"), [["u:1", "u:2", "a:x", "a:y", "u:3"]], [["u:1", "u:2"], ["u:3"]]),
        (("u:1", "a:x", "s:S", "u:2"), [["u:1", "a:x", "s:S", "u:2"]], [["u:1"], ["s:S", "u:2"]]),
        (("u:1", "a:x", "s:S"), [["u:1"]], [["u:1"]]),
        (("s: ", "u:1"), [["u:1"]], [["u:1"]]),
    ],
)
def test_old_answers_never_stay_where_a_new_one_is_asked(turns: tuple[str, ...], last, every) -> None:
    def messages(segments: list[list[str]]) -> tuple[tuple[Message, ...], ...]:
        return tuple(tuple(Message(**turn) for turn in said(*segment)) for segment in segments)

    row = {"messages": said(*turns)}
    assert as_draft(row, "last").turns == messages(last)
    assert as_draft(row, "all").turns == messages(every)


def test_every_turn_of_a_turns_row_is_asked_whatever_was_said() -> None:
    row = {"turns": ["1", "2"], "system": "S"}
    assert as_draft(row, "last").turns == ((system("S"), user("1")), (user("2"),))
    assert as_draft(row, "all") == as_draft(row, "last")


def test_a_tool_call_with_its_result_is_history_and_the_answer_after_it_is_not() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "c", "content": "4C"}
    row = {"messages": [*said("u:Weather?"), call, result, *said("a:Cold.", "u:Tomorrow?"), call]}
    history = (
        user("Weather?"),
        Message("assistant", None, tool_calls=(SENT_CALL,)),
        Message("tool", "4C", tool_call_id="c"),
    )
    assert as_draft(row, "all").turns == (history, (user("Tomorrow?"),))
    assert as_draft(row, "last").turns == ((*history, assistant("Cold."), user("Tomorrow?")),)
    unanswered = {"messages": [*said("u:Weather?"), call, result]}
    assert as_draft(unanswered, "all").turns == as_draft(unanswered, "last").turns == (history,)


def test_both_spellings_of_tool_arguments_come_out_the_same() -> None:
    spelled = {**CALL, "function": {"name": "w", "arguments": {"city": "Oslo"}}}
    drafts = [
        as_draft({"messages": [*said("u:w?"), {"role": "gpt", "tool_calls": [call]}, *said("u:ok?")]}, "last")
        for call in (CALL, spelled)
    ]
    assert drafts[0] == drafts[1]


def test_reasoning_of_the_history_is_kept_under_one_name() -> None:
    for field in ("reasoning_content", "reasoning"):
        row = {"messages": [*said("u:1"), {"role": "assistant", "content": "x", field: "why"}, *said("u:2")]}
        assert as_draft(row, "last").turns[0][1] == Message("assistant", "x", reasoning="why")


@pytest.mark.parametrize("role", ["Human", " USER ", "user", "human"])
def test_role_names_in_use_are_known(role: str) -> None:
    assert as_draft({"conversations": [{"from": role, "value": "Hi"}]}, "last").turns == ((user("Hi"),),)


def test_a_developer_is_the_system() -> None:
    row = {"messages": [{"role": "developer", "content": "S"}, *said("u:Hi")]}
    assert as_draft(row, "last").turns == ((system("S"), user("Hi")),)


def test_text_parts_are_joined() -> None:
    parts = [{"type": "text", "text": "Add "}, "2 and ", {"text": "2."}]
    assert as_draft({"messages": [{"role": "user", "content": parts}]}, "last").turns == ((user("Add 2 and 2."),),)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"id": 1, "prompt": "Hi"}, 1),
        ({"id": "1", "prompt": "Hi"}, "1"),
        ({"question_id": 81, "turns": ["Hi"]}, 81),
        ({"custom_id": "a", "body": {"messages": said("u:Hi")}}, "a"),
        ({"id": None, "prompt_id": "p", "prompt": "Hi"}, "p"),
        ({"id": 1.5, "prompt": "Hi"}, "1.5"),
        ({"id": True, "prompt": "Hi"}, "true"),
        ({"prompt": "Hi"}, None),
    ],
)
def test_ids_keep_their_type(row: object, expected: object) -> None:
    found = as_draft(row, "last").id
    assert (found, type(found)) == (expected, type(expected))


def test_tools_are_read_from_a_list_or_its_json() -> None:
    tool = {"type": "function", "function": {"name": "now", "parameters": {}}}
    text = '[{"type": "function", "function": {"name": "now", "parameters": {}}}]'
    for tools, expected in (([tool], (tool,)), (text, (tool,)), ("", None), ([], None), (None, None)):
        assert as_draft({"prompt": "Time?", "tools": tools}, "last").tools == expected


def test_a_batch_line_brings_its_parameters_and_tools() -> None:
    body = {
        "model": "m",
        "messages": said("u:Hi"),
        "tools": [{"type": "function"}],
        "temperature": 0.2,
        "max_completion_tokens": 9,
        "stop": ["\n"],
        "seed": None,
        "n": 1,
        "stream": True,
    }
    draft = as_draft({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body}, "last")
    assert draft.sampling == {"temperature": 0.2, "max_tokens": 9, "stop": ["\n"]}
    assert draft.tools == ({"type": "function"},)
    assert as_draft({"body": {"messages": said("u:Hi")}}, "last").sampling is None


BAD_CALLS = [
    ([{"name": "w"}], "message 2 has a tool call without a function"),
    ([{"function": {"name": "w", "arguments": '{"city": '}}], "message 2 has a tool call whose arguments are not"),
    ([{"function": {"name": "w", "arguments": "[1]"}}], "message 2 has a tool call whose arguments are not"),
]
BAD_MESSAGES = [
    ("hello", "message 2 is not an object"),
    ({"content": "x"}, "message 2 has no role"),
    ({"role": 7, "content": "x"}, "message 2 has no role"),
    ({"from": "bing", "value": "x"}, "message 2 has the unknown role 'bing'"),
    ({"role": "user", "content": None}, "message 2 has no content"),
    ({"role": "user"}, "message 2 has no content"),
    ({"role": "user", "content": " \n\t"}, "message 2 is blank"),
    ({"role": "user", "content": {"type": "text", "text": "x"}}, "message 2 is neither text nor a list of text parts"),
    ({"role": "user", "content": [{"type": "image_url"}]}, "message 2 has a part of type 'image_url'"),
    ({"role": "user", "content": [7]}, "message 2 has a part of type 'unknown'"),
    ({"role": "user", "content": "x", "name": 7}, "message 2: name is not text"),
    ({"role": "system", "content": 7}, "message 2 is neither text nor a list of text parts"),
    *(({"role": "assistant", "tool_calls": calls}, reason) for calls, reason in BAD_CALLS),
]
BAD_ROWS = [
    (42, "the row is not a JSON object"),
    (["a", "b"], "the row is not a JSON object"),
    ([{"prompt": "Hi"}], "the row is a list around one row"),
    ({}, "no known column among: none"),
    ({"text": "Hi"}, "no known column among: text"),
    ({"conversations": None}, "conversations is null"),
    ({"conversations": []}, "conversations is empty"),
    ({"conversations": " "}, "conversations is empty"),
    ({"conversations": {"from": "human"}}, "conversations is not a list"),
    ({"conversations": "[{broken"}, "conversations is text that is not JSON"),
    ({"messages": said("s:S")}, "no user message"),
    ({"messages": said("a:x")}, "no user message"),
    ({"messages": said("a:x", "u:Hi")}, "opens with a message of role 'assistant'"),
    ({"messages": said("u:1", "a: ", "u:2")}, "an earlier assistant message is blank"),
    ({"messages": said("s:A", "u:Hi"), "system": "B"}, "two system prompts"),
    ({"prompt": "Hi", "system": 7}, "system is neither text"),
    ({"prompt": " "}, "prompt is blank"),
    ({"prompt": {"text": "Hi"}}, "prompt is neither text"),
    ({"question": 7}, "question is neither text"),
    ({"instruction": "Count.", "input": {"a": 1}}, "input is not text"),
    ({"turns": []}, "turns is empty"),
    ({"turns": ["1", ""]}, "turn 2 is blank"),
    ({"turns": ["1", None]}, "turn 2 has no content"),
    ({"prompt": "<image>", "image": "cat.jpg"}, "column image: only text can be asked"),
    ({"prompt": "Time?", "tools": "[{broken"}, "tools is text that is not JSON"),
    ({"prompt": "Time?", "tools": ["now"]}, "tools is not a list of objects"),
    ({"body": "x"}, "body is not an object"),
    ({"body": {"input": "x"}}, "body.messages is not a list"),
    ({"body": {"input": "x"}, "url": "/v1/embeddings"}, "url '/v1/embeddings': only chat completions"),
    ({"body": {"messages": said("u:Hi"), "n": 4}}, "n is not 1"),
    ({"body": {"messages": said("u:Hi"), "temperature": "hot"}}, "body: Expected `float`"),
]


@pytest.mark.parametrize(("message", "reason"), BAD_MESSAGES)
def test_a_message_that_cannot_be_asked_is_refused_with_its_number(message: object, reason: str) -> None:
    assert refusal({"messages": [*said("u:first"), message, *said("u:last")]}).startswith(reason)


@pytest.mark.parametrize(("row", "reason"), BAD_ROWS)
def test_a_row_that_cannot_be_asked_is_refused_with_the_reason(row: object, reason: str) -> None:
    assert refusal(row).startswith(reason)


def test_refusals_also_come_as_values() -> None:
    for record, reason in ((Record(1, error="not JSON"), "not JSON"), (Record(1, {"prompt": ""}), "prompt is blank")):
        found = drafted(record, "last")
        assert isinstance(found, Refused)
        assert found.reason == reason
    assert drafted(Record(1, {"prompt": "Hi"}), "last") == as_draft({"prompt": "Hi"}, "last")
