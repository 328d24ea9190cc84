"""Why an engine died, from the end of its log: one sentence and a remedy, by the rules of `deaths.toml`.

Only the engine's last start counts, where the log shows one. A death that no rule knows has no diagnosis; `last_error`
then says what the log says last. Add a death: one table in deaths.toml, and its log under tests/engines/logs/.
"""

import re
import tomllib
from collections.abc import Callable
from functools import cache
from importlib import resources

import msgspec

from sevenfold.engines.base import Diagnosis
from sevenfold.engines.flags import plain
from sevenfold.engines.rules import nearest

NOISE = re.compile(
    r"sigquit from a child|SIGQUIT received|It usually means|Triggering SIGQUIT|EngineDeadError|See root cause above|"
    r"EngineCore failed to start|DeprecationWarning|FutureWarning|UserWarning|resource_tracker|Killed$",
    re.IGNORECASE,
)
"""Consequences of a death, and what is always there."""

TELLING = re.compile(
    r"\b\w*(Error|Exception|Interrupt)\b\s*:|\berror:|\bfatal\b|\bfailed\b|\bERROR\b|\bAborted\b|"
    r"Segmentation fault|core dumped|Assertion .* failed",
    re.IGNORECASE,
)

STAMP = re.compile(
    r"^(\([^)]*\)\s*)?(\[?\d{4}-\d\d-\d\d[ T][\d:.,]+( \w+)?\]?\s*)?((ERROR|INFO|WARNING)\b[^\]]*\]\s*)?"
)
"""Process, time, level and place in the source, in front of a line."""

HYBRID = re.compile(r"type=\w*(Qwen3_5|Qwen3Next|Mamba|NemotronH|Jamba|FalconH1|Linear|Lfm2|Hybrid|Bamba|Zamba)\w*")
"""Model classes with recurrent states, as SGLang logs them."""


class Death(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sign: str
    cause: str
    remedy: str
    engines: tuple[str, ...] = ()
    retry: bool = True
    within: int = 0
    refine: str = ""


class _Book(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    starts: dict[str, str]
    death: tuple[Death, ...]


def diagnose(engine: str, log_tail: str) -> Diagnosis | None:
    """None where no rule knows this death."""
    log = last_start(engine, log_tail)
    for death in _book().death:
        if death.engines and engine not in death.engines:
            continue
        found = _last(death, log)
        if found is not None:
            facts = {name: value or "" for name, value in found.groupdict().items()}
            said = Diagnosis(death.cause.format_map(facts), death.remedy.format_map(facts), death.retry)
            return REFINEMENTS[death.refine](said, facts, log) if death.refine else said
    return None


def last_error(log_tail: str, most: int = 300) -> str:
    """The last telling error of a log, at most `most` characters; its last line where nothing tells; else nothing."""
    lines = [STAMP.sub("", line).strip() for line in log_tail.splitlines()]
    lines = [line for line in lines if line and not NOISE.search(line)]
    errors = [line for line in lines if TELLING.search(line) and not line.startswith(("File ", "^", "~", "raise "))]
    last = (errors or lines or [""])[-1]
    return last if len(last) <= most else last[: most - 1] + "…"


def last_start(engine: str, log: str) -> str:
    """The log from the engine's last start on, or all of it where no start is to be seen."""
    sign = _book().starts.get(engine)
    begins = [found.start() for found in re.finditer(sign, log)] if sign else []
    if not begins:
        return log
    # One start may match twice (its banner, then its arguments): those are close to each other.
    begin = begins[-1]
    for earlier in reversed(begins[:-1]):
        if log.count("\n", earlier, begin) > 15:
            break
        begin = earlier
    return log[begin:]


@cache
def _book() -> _Book:
    text = resources.files("sevenfold.engines").joinpath("deaths.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), _Book)


def _last(death: Death, log: str) -> re.Match[str] | None:
    matches = list(re.finditer(death.sign, log, re.MULTILINE))
    if not matches or (death.within and log.count("\n", matches[-1].end()) > death.within):
        return None
    return matches[-1]


def _nearest_flag(said: Diagnosis, facts: dict[str, str], log: str) -> Diagnosis:
    """argparse prints every flag it knows before it says which it does not."""
    known = {plain(flag) for flag in re.findall(r"--[a-z][\w-]+", log[: log.rfind("error: unrecognized")])}
    meant = [nearest(plain(word), known) for word in facts["what"].split() if word.startswith("--")]
    near = ", ".join(f"--{flag}" for flag in meant if flag)
    return msgspec.structs.replace(said, remedy=f"did you mean {near}?") if near else said


def _memory(said: Diagnosis, _facts: dict[str, str], log: str) -> Diagnosis:
    """SGLang says the same whether the fraction is too small for the weights, the caches too large for the fraction, or
    a neighbour took the memory between the first look and the load. Its numbers tell them apart."""
    fraction = _number(r"mem_fraction_static=([\d.]+)", log)
    before = _number(r"Load weight begin\. avail mem=([\d.]+)", log)
    weights = _number(r"Load weight end\..*mem usage=([\d.]+)", log)
    if fraction is None or before is None or weights is None:
        return said
    allowed = before * fraction
    if weights >= allowed:
        least = min(0.95, weights / before + 0.05)
        cause = (
            f"the weights take {weights:.2f} GB and --mem-fraction-static {fraction:g} of {before:.2f} free GB allows "
            f"{allowed:.2f}"
        )
        return Diagnosis(cause, f"--mem-fraction-static {least:.2f} or more, or --quantization fp8", retry=False)
    running = _number(r"max_running_requests=(\d+)", log)
    slots = _number(r"max_mamba_cache_size=(\d+)", log)
    asked = f"--max-mamba-cache-size {slots:g}" if slots else f"--max-running-requests {running:g}" if running else ""
    if HYBRID.search(log) and asked:
        cause = f"the states of {asked} do not fit in the {allowed - weights:.1f} GB that the weights leave"
        remedy = "lower it: sevenfold plan says how many fit; --mamba-ssm-dtype bfloat16 halves them"
        return Diagnosis(cause, remedy, retry=False)
    cause = (
        f"another process took GPU memory while this one started: {before:.1f} GB were left when the weights were "
        "loaded, fewer than at its first look"
    )
    return Diagnosis(cause, "nvidia-smi shows who holds it; replicas that share a GPU start one after the other")


def _port(said: Diagnosis, _facts: dict[str, str], log: str) -> Diagnosis:
    port = _number(r"\bport=(\d+)", log)
    if port is None:
        return said
    cause = said.cause.replace("(SIGTERM)", f"(SIGTERM) while it held port {port:.0f}")
    return msgspec.structs.replace(said, cause=cause, remedy=f"{said.remedy}; ss -ltnp 'sport = :{port:.0f}'")


def _number(pattern: str, log: str) -> float | None:
    found = re.findall(pattern, log)
    return float(found[-1]) if found else None


REFINEMENTS: dict[str, Callable[[Diagnosis, dict[str, str], str], Diagnosis]] = {
    "nearest_flag": _nearest_flag,
    "memory": _memory,
    "port": _port,
}
