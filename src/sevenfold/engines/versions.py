"""Engine versions compared: `inside("0.5.11", ">=0.5.11,<0.5.20")`. The part of PEP 440 that engines use, nothing more.

Local parts (`+cpu`) do not count. ConfigError on text that is no version or no range.
"""

import re
from functools import lru_cache

from sevenfold.errors import ConfigError

VERSION = re.compile(r"v?(?P<numbers>\d+(\.\d+)*)[-_.]?((?P<phase>a|b|rc|post|dev)\.?(?P<count>\d*))?(\+[\w.]+)?")
PHASES = {"dev": -4, "a": -3, "b": -2, "rc": -1, None: 0, "post": 1}
TERM = re.compile(r"(?P<op>>=|<=|==|!=|>|<)\s*(?P<version>\S+)")

Key = tuple[tuple[int, ...], int, int]


@lru_cache(maxsize=512)
def key(version: str) -> Key:
    """Sorts as the versions do."""
    found = VERSION.fullmatch(version.strip())
    if found is None:
        raise ConfigError(f"{version!r} is not a version", "write it as 0.5.11")
    numbers = [int(number) for number in found["numbers"].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers), PHASES[found["phase"]], int(found["count"] or 0)


def inside(version: str, span: str) -> bool:
    """Whether it meets every term of `span`, separated by commas. An empty span holds every version."""
    return all(_meets(key(version), term.strip()) for term in span.split(",") if term.strip())


def _meets(mine: Key, term: str) -> bool:
    found = TERM.fullmatch(term)
    if found is None:
        raise ConfigError(f"{term!r} is not a range of versions", "write it as >=0.5.11,<0.5.20")
    theirs = key(found["version"])
    return {
        ">=": mine >= theirs,
        "<=": mine <= theirs,
        "==": mine == theirs,
        "!=": mine != theirs,
        ">": mine > theirs,
        "<": mine < theirs,
    }[found["op"]]
