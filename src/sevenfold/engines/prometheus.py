"""One number out of Prometheus' text format. A series that is not there is None: unknown, never zero."""

import re
from collections.abc import Iterator

SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(\{(?P<labels>.*)\})?\s+(?P<value>\S+)(\s+-?\d+)?\s*")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def total(text: str, name: str, **labels: str) -> int | None:
    """The series called `name` added up, over those whose labels are as given. None where there is none."""
    values = list(_values(text, name, labels))
    return round(sum(values)) if values else None


def _values(text: str, name: str, wanted: dict[str, str]) -> Iterator[float]:
    for line in text.splitlines():
        if not line.startswith(name):
            continue
        sample = SAMPLE.fullmatch(line)
        if sample is None or sample["name"] != name:
            continue
        labels = dict(LABEL.findall(sample["labels"] or ""))
        value = _number(sample["value"])
        if value is not None and all(labels.get(key) == text for key, text in wanted.items()):
            yield value


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value - value == 0 else None  # NaN and infinities say nothing
