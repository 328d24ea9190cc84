"""The checks: each looks at one sample and says why it is no good, or nothing.

Add a check: one function. Its name is the flag, its place in this file its gravity (gravest first), its docstring what
the report and the gate say of it, `halt` the share of rows above which a run stops. Then a reply that it must flag and
one that it must let pass, in tests/audit/test_checks.py. It sees a reply that may be empty, of any script and size, so
it tests for cheap signs first: 900,000 replies of 8 KB pass here.

    @check(halt=0.05)
    def shouting(sample: Sample, rules: Rules) -> str | None:
        \"\"\"The answer is in capitals.\"\"\"
        return "no small letter" if sample.completion.answer.isupper() else None

Pure; a check remembers nothing. `duplicate` needs the other replies, so the Judge speaks for it.
"""

import difflib
import re
from collections.abc import Callable

import msgspec

from sevenfold import config
from sevenfold.audit.lengths import output_tokens
from sevenfold.audit.loops import is_loop
from sevenfold.errors import ConfigError
from sevenfold.types import Sample


class Rules(msgspec.Struct, frozen=True):
    """What counts as bad. `limits` holds every check's: the share of rows above which a run stops."""

    trivial_tokens: int
    limits: dict[str, float]


Speak = Callable[[Sample, Rules], str | None]


class Check(msgspec.Struct, frozen=True):
    """`speak` None: it takes more than one sample to tell."""

    name: str
    meaning: str
    halt: float
    speak: Speak | None


CHECKS: dict[str, Check] = {}
"""By name, gravest first."""


def check(halt: float) -> Callable[[Speak], Speak]:
    def register(speak: Speak) -> Speak:
        name = speak.__name__
        CHECKS[name] = Check(name, (speak.__doc__ or "").strip(), halt, speak)
        return speak

    return register


def rules(judge: config.Judge) -> Rules:
    """ConfigError where a limit names no check."""
    for name in judge.limits:
        if name not in CHECKS:
            near = difflib.get_close_matches(name, CHECKS, n=1, cutoff=0.5)
            guess = f"did you mean {near[0]}?" if near else f"checks: {', '.join(CHECKS)}"
            raise ConfigError(f"judge.limits.{name}: there is no such check", guess)
    return Rules(judge.trivial_tokens, {name: each.halt for name, each in CHECKS.items()} | judge.limits)


CONTROL = re.compile(r"<\|[A-Za-z0-9_]{1,40}\|>|<｜[^｜<>]{1,40}｜>|<(?:start|end)_of_turn>")
"""Control tokens of the ChatML, Llama, Phi, DeepSeek and Gemma families, by their form: no list would stay complete."""
CONTROL_SIGNS = ("<|", "<｜", "_of_turn>")
THINK_TAGS = ("<think>", "</think>", "<thinking>", "</thinking>")
NEXT_USER = re.compile(
    r"<\|im_start\|>user|<\|start_header_id\|>user|<\|user\|>|<start_of_turn>user|\[INST\]"
    r"|\n(?:Human|User):(?s:.)*\n(?:Assistant|AI):|\n###? ?Instruction:(?s:.)*\n###? ?Response:"
)
"""A user's turn opened by control tokens, or by plain labels with the assistant's label after it."""
NEXT_USER_SIGNS = ("user", "[INST]", "\nHuman:", "\nUser:", "Instruction:")
LABELS = ("Human:", "User:", "Instruction:", "dialog", "conversation")
"""Where the question has these, a reply of labelled turns may be what was asked for."""
SHORT_REPLY = 400
"""Characters below which an answer may consist of control tokens only."""


@check(halt=0.10)
def truncated(sample: Sample, rules: Rules) -> str | None:
    """The reply was cut off before its end."""
    reason = sample.completion.finish_reason
    return f"finish_reason {reason}" if reason in ("length", "abort", "error") else None


@check(halt=0.02)
def empty(sample: Sample, rules: Rules) -> str | None:
    """Nothing came back, neither thought nor answer."""
    return "no text" if not _answers(sample) and not sample.completion.reasoning.strip() else None


@check(halt=0.05)
def no_answer(sample: Sample, rules: Rules) -> str | None:
    """A thought came back, and no answer after it."""
    return "a thought only" if not _answers(sample) and sample.completion.reasoning.strip() else None


@check(halt=0.05)
def no_reasoning(sample: Sample, rules: Rules) -> str | None:
    """Thinking was asked for and none came back."""
    completion = sample.completion
    if not sample.thinking or completion.reasoning.strip():
        return None
    # A thought that nobody separated is a leak, not a missing thought.
    before, closed, _ = completion.answer.partition("</think>")
    return None if closed and before.replace("<think>", "").strip() else "no thought"


@check(halt=0.02)
def think_leak(sample: Sample, rules: Rules) -> str | None:
    """Thinking tags stand in the answer."""
    answer = sample.completion.answer
    if "think" not in answer:
        return None
    return next((f"{tag} in the answer" for tag in THINK_TAGS if tag in answer), None)


@check(halt=0.02)
def residual_special_token(sample: Sample, rules: Rules) -> str | None:
    """Control tokens of a template stand in the text."""
    for text in (sample.completion.answer, sample.completion.reasoning):
        if any(sign in text for sign in CONTROL_SIGNS) and (found := CONTROL.search(text)):
            return f"{found.group()} in the text"
    return None


@check(halt=0.02)
def runaway(sample: Sample, rules: Rules) -> str | None:
    """The model played the user's next turn."""
    answer = sample.completion.answer
    if not any(sign in answer for sign in NEXT_USER_SIGNS):
        return None
    found = NEXT_USER.search(answer)
    if found is None:
        return None
    label = found.group().strip()
    asked = (sample.messages[-1].content or "") if sample.messages else ""
    if label[0] not in "<[" and any(word in asked for word in LABELS):
        return None
    return f"{label[:20]!r} in the answer"


@check(halt=0.05)
def repetition_loop(sample: Sample, rules: Rules) -> str | None:
    """The text runs in a circle."""
    completion = sample.completion
    if is_loop(completion.reasoning):
        return "in the thought"
    return "in the answer" if is_loop(completion.answer) else None


@check(halt=0.02)
def replacement_char(sample: Sample, rules: Rules) -> str | None:
    """The text holds U+FFFD, a broken character."""
    completion = sample.completion
    return "U+FFFD" if "\ufffd" in completion.answer or "\ufffd" in completion.reasoning else None


@check(halt=0.05)
def trivial(sample: Sample, rules: Rules) -> str | None:
    """A reply of fewer than {trivial_tokens} output tokens."""
    tokens = output_tokens(sample.completion)
    return f"{tokens} output tokens" if tokens < rules.trivial_tokens and not sample.completion.tool_calls else None


CHECKS["duplicate"] = Check("duplicate", "The same long reply came to another prompt.", 0.05, None)


def meaning(name: str, rules: Rules) -> str:
    """What a flag means, as a sentence; an unknown flag (of another version's ledger) means its name."""
    return CHECKS[name].meaning.format(trivial_tokens=rules.trivial_tokens) if name in CHECKS else name


def _answers(sample: Sample) -> bool:
    """Whether there is an answer: text beside control tokens, or a call of a tool."""
    answer = sample.completion.answer
    if len(answer) < SHORT_REPLY:
        answer = CONTROL.sub("", answer)
    return bool(answer.strip()) or bool(sample.completion.tool_calls)
