"""How long a reply is, in tokens where the engine counted them, else estimated from the text. Knows no tokenizer."""

import msgspec

from sevenfold.types import Completion

CHARACTERS_PER_TOKEN = 4
"""The usual ratio for English under a vocabulary of 50,000 to 250,000 tokens; other scripts have fewer."""


class Length(msgspec.Struct, frozen=True):
    """Tokens. `estimated`: from characters, because the engine counted none."""

    reasoning: int
    answer: int
    estimated: bool

    @property
    def total(self) -> int:
        return self.reasoning + self.answer


def length(completion: Completion) -> Length:
    """An engine that counts only the total has it divided by characters."""
    thought, said = len(completion.reasoning), len(completion.answer)
    total = output_tokens(completion)
    counted = completion.usage.reasoning_tokens
    if is_estimated(completion) or not counted:
        counted = round(total * thought / (thought + said)) if thought else 0
    counted = min(counted, total)
    return Length(counted, total - counted, is_estimated(completion))


def output_tokens(completion: Completion) -> int:
    counted = completion.usage.completion_tokens or len(completion.completion_token_ids or ())
    if counted:
        return counted
    return -(-(len(completion.reasoning) + len(completion.answer)) // CHARACTERS_PER_TOKEN)


def is_estimated(completion: Completion) -> bool:
    return not completion.usage.completion_tokens and not completion.completion_token_ids
