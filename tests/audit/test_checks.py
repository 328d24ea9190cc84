from pathlib import Path

import msgspec
import pytest

from sevenfold import config
from sevenfold.audit import CHECKS, Judge, rules, text_samples
from sevenfold.audit.checks import meaning
from sevenfold.errors import ConfigError
from sevenfold.types import JSON
from tests.audit.samples import prose, sample

RULES = rules(config.Judge())
REPLIES = Path(__file__).parent / "cases" / "replies.jsonl"
CASES = [msgspec.json.decode(line) for line in REPLIES.read_bytes().splitlines()]


def says(name: str, **reply: object) -> bool:
    speak = CHECKS[name].speak
    assert speak is not None
    return speak(sample(**reply), RULES) is not None  # type: ignore[arg-type]


def test_the_checks_in_order_of_gravity() -> None:
    assert list(CHECKS) == [
        "truncated",
        "empty",
        "no_answer",
        "no_reasoning",
        "think_leak",
        "residual_special_token",
        "runaway",
        "repetition_loop",
        "replacement_char",
        "trivial",
        "duplicate",
    ]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_replies_that_went_wrong_for_people(case: JSON) -> None:
    """Among replies that think, so that thinking is expected; the short honest ones are let pass as trivial."""
    judge = Judge(rules(config.Judge(trivial_tokens=2)))
    thinker: JSON = {"prompt": "q", "response": "an answer", "reasoning": "a thought"}
    _, judged = map(judge.judge, text_samples([thinker, case]))
    assert judged.verdict == case["verdict"]


def test_a_loop_that_was_cut_is_both() -> None:
    (case,) = (case for case in CASES if case["id"] == "R12-0")
    (found,) = text_samples([case])
    flags = Judge(RULES).judge(found).flags
    assert flags == ("truncated", "no_answer", "repetition_loop")


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("truncated", {"finish": "length"}),
        ("truncated", {"finish": "abort"}),
        ("empty", {"answer": " \n", "reasoning": ""}),
        ("empty", {"answer": "<|im_end|>", "reasoning": ""}),
        ("no_answer", {"answer": ""}),
        ("no_answer", {"answer": "<|endoftext|>\n"}),
        ("no_reasoning", {"reasoning": "\n\n"}),
        ("no_reasoning", {"answer": "<think>\n\n</think>\n\nOK.", "reasoning": ""}),
        ("think_leak", {"answer": "so\n</think>\n4"}),
        ("residual_special_token", {"answer": "Four.<|eot_id|>"}),
        ("residual_special_token", {"answer": "Four.<｜end▁of▁sentence｜>"}),
        ("residual_special_token", {"answer": "Four.<end_of_turn>"}),
        ("residual_special_token", {"reasoning": "Four.<|im_end|>"}),
        ("runaway", {"answer": "Four.\n<|im_start|>user\nAnd five?"}),
        ("runaway", {"answer": "Four. [INST] And five? [/INST]"}),
        ("runaway", {"answer": "Four.\n\nHuman: And five?\n\nAssistant: Six."}),
        ("runaway", {"answer": "Four.\n### Instruction:\nAdd.\n### Response:\nSix."}),
        ("repetition_loop", {"answer": "Let me check that once more. " * 50}),
        ("repetition_loop", {"reasoning": "Wait. " * 400}),
        ("replacement_char", {"answer": "caf\ufffd"}),
        ("replacement_char", {"reasoning": "caf\ufffd"}),
        ("trivial", {"answer": "OK.", "tokens": 6}),
        ("trivial", {"answer": "OK.", "reasoning": "", "tokens": 0}),
    ],
)
def test_flagged(name: str, bad: dict[str, object]) -> None:
    assert says(name, **bad)


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("truncated", {"finish": "tool_calls"}),
        ("empty", {"answer": "", "reasoning": "", "tool_calls": ({"name": "now"},)}),
        ("no_answer", {"answer": "", "tool_calls": ({"name": "now"},)}),
        ("no_reasoning", {"reasoning": "", "thinking": False}),
        ("no_reasoning", {"reasoning": "", "answer": "2 and 2\n</think>\n4"}),
        ("think_leak", {"answer": "I think <b>therefore</b> I am."}),
        ("residual_special_token", {"answer": "In F#: f <| g x |> h, and 1 <| 2"}),
        ("runaway", {"answer": "The user asks. As a user: log in."}),
        ("runaway", {"answer": "A:\nHuman: Hi\nAssistant: Hello", "question": "Write a dialogue."}),
        ("runaway", {"answer": "Notes.\nUser: the person who logs in."}),
        ("repetition_loop", {"answer": prose(8000)}),
        ("repetition_loop", {"answer": "12 | 14\n" * 20}),
        ("replacement_char", {"answer": "café 猫"}),
        ("trivial", {"answer": "OK.", "tokens": 16}),
        ("trivial", {"answer": "", "tokens": 6, "tool_calls": ({"name": "now"},)}),
    ],
)
def test_let_pass(name: str, good: dict[str, object]) -> None:
    assert not says(name, **good)


def test_a_limit_of_the_spec_goes_over_the_checks_own() -> None:
    limits = rules(config.Judge(limits={"truncated": 0.5})).limits
    assert (limits["truncated"], limits["trivial"]) == (0.5, 0.05)
    assert limits.keys() == CHECKS.keys()


@pytest.mark.parametrize(("name", "remedy"), [("truncted", "did you mean truncated?"), ("zz", "checks: truncated, ")])
def test_a_limit_for_no_check_is_refused(name: str, remedy: str) -> None:
    with pytest.raises(ConfigError, match=f"judge.limits.{name}") as refused:
        rules(config.Judge(limits={name: 0.5}))
    assert refused.value.remedy.startswith(remedy)


def test_every_check_has_a_meaning() -> None:
    assert meaning("trivial", RULES) == "A reply of fewer than 16 output tokens."
    assert meaning("of_another_version", RULES) == "of_another_version"
    assert all(meaning(name, RULES).endswith(".") for name in CHECKS)
