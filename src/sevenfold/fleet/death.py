"""Why a replica's process ended, from its exit code and the end of its log. Pure."""

import re

from sevenfold.engines.base import Diagnosis, Engine
from sevenfold.engines.diagnosis import last_error

CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x1f\x7f]")


def cause_of(engine: Engine, code: int | None, tail: str) -> Diagnosis:
    """`code` None: nobody who could read it was its parent."""
    known = engine.diagnose(tail)
    if known:
        return known
    last = telling(last_error(tail))
    if code is None:
        return Diagnosis(f"it ended; its log ends: {last or '(empty)'}", "see its log")
    if code < 0:
        by = "killed" if code == -9 else f"ended by signal {-code}"
        remedy = "if nobody killed it, the machine ran out of memory: see dmesg" if code == -9 else "see its log"
        return Diagnosis(f"{by}; its log ends: {last}" if last else by, remedy)
    return Diagnosis(f"it ended with code {code}; its log ends: {last or '(empty)'}", "see its log")


def undying(pids: list[int], gpu: str | None) -> Diagnosis:
    """SIGKILL has no effect: the process waits inside a driver or on a mount."""
    who = f"process {pids[0]}" if len(pids) == 1 else f"processes {', '.join(map(str, pids))}"
    where = f" of GPU {gpu}" if gpu is not None else ""
    verb = "does" if len(pids) == 1 else "do"
    return Diagnosis(
        f"{who}{where} {verb} not die", "see dmesg; only a reset of the GPU or a reboot helps", retry=False
    )


def telling(text: str) -> str:
    """The last line with words in it, fit for a terminal."""
    for line in reversed(re.split(r"[\r\n]", text)):
        plain = CONTROL.sub("", line).strip()
        if plain:
            return plain[:200]
    return ""
