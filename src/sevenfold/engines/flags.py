"""Engine flags as users write them, and as an argv carries them. It knows no flag's meaning."""

import re
from collections.abc import Mapping

Value = str | int | float | bool

NUMBERS = re.compile(r"-?\d+(\s+-?\d+)+")
"""A value like "1 2 4" stands for a flag that takes several numbers; other text with spaces stays one argument."""


def plain(name: str) -> str:
    """`--max_running_requests` and `max-running-requests` are one flag."""
    return name.strip().lstrip("-").replace("_", "-")


def given(flags: Mapping[str, Value]) -> dict[str, Value]:
    """Those that are really given, by plain name. False takes a flag away."""
    return {plain(name): value for name, value in flags.items() if value is not False}


def argv(flags: Mapping[str, Value]) -> tuple[str, ...]:
    words: list[str] = []
    for name, value in given(flags).items():
        words.append(f"--{name}")
        if isinstance(value, str) and NUMBERS.fullmatch(value.strip()):
            words.extend(value.split())
        elif value is not True:
            words.append(str(value))
    return tuple(words)
