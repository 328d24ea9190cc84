"""One JSON line per thing that happened: the only way a room speaks to the outside while it works.

A journal is a file of such lines, opened for appending, so several processes share one. It promises never to stop the
work: a line that cannot be written is lost and counted, nothing more. Nothing that a run decides reads a journal.
"""

import os
import time
from pathlib import Path
from typing import Any

import msgspec


class Journal:
    def __init__(self, path: Path | None, process: str) -> None:
        self.process = process
        self.lost = 0
        self._file: int | None = None
        if path is not None:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def say(self, event: str, **facts: Any) -> None:
        """Append one line: `at` (Unix seconds), `process`, `event` and the facts, each a JSON value."""
        if self._file is None:
            return
        line = msgspec.json.encode({"at": round(time.time(), 3), "process": self.process, "event": event, **facts})
        try:
            os.write(self._file, line + b"\n")
        except OSError:
            self.lost += 1

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


SILENT = Journal(None, "")
"""For callers without a run: says nothing, opens nothing."""
