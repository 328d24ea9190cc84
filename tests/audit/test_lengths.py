import pytest

from sevenfold.audit.lengths import Length, length
from sevenfold.types import Completion, Usage


@pytest.mark.parametrize(
    ("completion", "expected"),
    [
        (Completion("a" * 50, "r" * 50, "stop", Usage(1, 100, reasoning_tokens=70)), Length(70, 30, False)),
        (Completion("a" * 50, "r" * 150, "stop", Usage(1, 100)), Length(75, 25, False)),
        (Completion("a" * 50, "", "stop", Usage(1, 100)), Length(0, 100, False)),
        (Completion("a" * 10, "r" * 10, "stop", Usage(), completion_token_ids=(1, 2, 3, 4)), Length(2, 2, False)),
        (Completion("a" * 10, "r" * 10, "stop", Usage()), Length(2, 3, True)),
        (Completion("a" * 10, "r" * 10, "stop", Usage(1, 0, reasoning_tokens=9)), Length(2, 3, True)),
        (Completion("", "", "stop", Usage(1, 1)), Length(0, 1, False)),
        (Completion("", "", "stop", Usage()), Length(0, 0, True)),
        (Completion("a", "", "stop", Usage(1, 5, reasoning_tokens=9)), Length(5, 0, False)),
    ],
)
def test_tokens_as_counted_divided_or_estimated(completion: Completion, expected: Length) -> None:
    assert length(completion) == expected
    assert expected.total == expected.reasoning + expected.answer
