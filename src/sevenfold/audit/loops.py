"""Whether a text runs in a circle: a long stretch of it, in one piece, occurs again and again word for word.

Looks at sixteen windows of the text and counts each in C, so the cost is near-linear and small. Honest repetition
passes: lists and tables change a number or a word per line, refrains are broken by verses, and short tables are short.
A loop that changes a word each time round passes too.
"""

WINDOW = 120
"""Characters of a window: longer than a line of a list or the boilerplate between two cells of a table, so that honest
rows always have something of their own inside it."""
ROUNDS = 5
"""Occurrences of a window, none overlapping: a song has its refrain three or four times."""
PROBES = 16
STRETCH = 5
"""Neighbouring windows that must all recur: nearly a third of the text in one piece."""
SHORTEST = WINDOW * ROUNDS


def is_loop(text: str) -> bool:
    if len(text) < SHORTEST:
        return False
    step = (len(text) - WINDOW) / (PROBES - 1)
    # Any five neighbours hold one of these, so an honest text is passed after three looks.
    posts = range(STRETCH - 1, PROBES, STRETCH)
    return any(_recurs(text, round(post * step)) and _stretch(text, post, step) >= STRETCH for post in posts)


def _stretch(text: str, post: int, step: float) -> int:
    """How many neighbouring windows around this one recur."""
    first = last = post
    while first > 0 and _recurs(text, round((first - 1) * step)):
        first -= 1
    while last < PROBES - 1 and _recurs(text, round((last + 1) * step)):
        last += 1
    return last - first + 1


def _recurs(text: str, start: int) -> bool:
    window = text[start : start + WINDOW]
    return not window.isspace() and text.count(window) >= ROUNDS
