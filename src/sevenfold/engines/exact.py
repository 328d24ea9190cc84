"""What a completion given as token ids needs before it can be kept: its end, and its reasoning.

Some engines check the length before the end token inside a run of accepted drafts: ids then go on after the end, and
the finish says `length` (SGLang from its start to 0.5.17; vLLM leaves ids behind a stop string).
"""

from collections.abc import Mapping

from sevenfold.engines.base import split_reasoning
from sevenfold.types import FinishReason

OPENED = "<think>"


def cut(ids: tuple[int, ...], ends: Mapping[int, str]) -> tuple[tuple[int, ...], str | None]:
    """The ids up to the first end token, that one included. With the end's text where something lay behind it: text
    and finish reason are wrong then; None where nothing did."""
    for place, token in enumerate(ids[:-1]):
        if token in ends:
            return ids[: place + 1], ends[token]
    return ids, None


def cut_text(text: str, end: str) -> str:
    """The text before the end token's own."""
    return text.partition(end)[0] if end else text


def finish_of(ids: tuple[int, ...], ends: Mapping[int, str], said: FinishReason) -> FinishReason:
    """A completion whose last id is an end token stopped, whatever the engine says of its length."""
    return "stop" if said == "length" and ids and ids[-1] in ends else said


def split(text: str, rendered_prompt: str | None) -> tuple[str, str]:
    """(reasoning, answer) of raw text; the rendered prompt tells whether a thought was open already."""
    return split_reasoning(text, opened=rendered_prompt is not None and rendered_prompt.rstrip().endswith(OPENED))
