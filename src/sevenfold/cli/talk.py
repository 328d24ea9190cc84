"""stderr is talk: sentences, errors and the progress line. stdout stays data."""

import os
import sys
import time

from sevenfold.errors import SevenfoldError

QUIET_BEAT = 30.0
"""Seconds between progress lines where nobody watches a terminal: a day of them stays a readable log."""


def say(text: str) -> None:
    """One line to stderr. A terminal that is gone (an ssh that dropped) never stops the work."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:
        pass


def complain(error: SevenfoldError) -> None:
    say(f"sevenfold: {error.message}")
    if error.remedy:
        say(f"  -> {error.remedy}")


def lively() -> bool:
    """Whether stderr is a terminal that can redraw a line."""
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class Ticker:
    """A line that is redrawn on a terminal, and written now and then elsewhere."""

    def __init__(self) -> None:
        self._lively = lively()
        self._last = -QUIET_BEAT
        self._drawn = False

    def show(self, line: str) -> None:
        if self._lively:
            width = os.get_terminal_size(sys.stderr.fileno()).columns
            self._write(f"\r\x1b[K{line[: max(20, width - 1)]}")
            self._drawn = True
        elif time.monotonic() - self._last >= QUIET_BEAT:
            self._last = time.monotonic()
            say(line)

    def close(self) -> None:
        if self._drawn:
            self._write("\n")
            self._drawn = False

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            self._lively = False
