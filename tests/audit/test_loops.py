import random

import pytest

from sevenfold.audit.loops import SHORTEST, is_loop
from tests.audit.samples import prose

PARAGRAPH = prose(800, seed=3)


@pytest.mark.parametrize(
    "text",
    [
        "13, 17, " * 120,
        "!" * 2000,
        "我应该再检查一遍。" * 200,
        PARAGRAPH * 6,
        prose(3000) + "Wait, let me check again. " * 80,
        prose(2000) + "So the answer is 4, I am sure of it. " * 80 + prose(2500, seed=1),
        "Wait, let me check again. " * 60 + "Fine, the answer is done.",
    ],
    ids=["numbers", "marks", "chinese", "paragraph", "to the end", "in the middle", "that ends"],
)
def test_loops(text: str) -> None:
    assert is_loop(text)


CHORUS = "Oh river, carry me home again, " * 2 + "carry me down to the sea.\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no " * (SHORTEST // 3 - 1),
        "\n".join(f"{n}. Item number {n} costs {3 * n} euro" for n in range(1, 200)),
        "\n".join("| " + " | ".join(str(a * b) for b in range(1, 13)) + " |" for a in range(1, 60)),
        "".join(prose(160, seed=n) + "\n" + CHORUS for n in range(12)),
        "\n".join(f'<td style="text-align: center; padding: 8px; border: 1px">{n}</td>' for n in range(90)),
        " " * 5000,
        prose(900) + "-" * 80 + prose(900, seed=1) + "-" * 80 + prose(900, seed=2),
    ],
    ids=["nothing", "short", "list", "table", "song", "markup", "blank", "rules"],
)
def test_honest_repetition(text: str) -> None:
    assert not is_loop(text)


def test_prose_of_any_length_is_no_loop() -> None:
    draw = random.Random(5)
    assert not any(is_loop(prose(draw.randint(1, 20_000), seed=n)) for n in range(100))
