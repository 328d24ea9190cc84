"""`run` and `resume`: prompts in, a finished run folder out."""

import asyncio
import signal
from pathlib import Path
from typing import Annotated

import uvloop
from cyclopts import Parameter

from sevenfold.cli.flags import SpecFlags
from sevenfold.cli.talk import Ticker, say
from sevenfold.config import RunSpec
from sevenfold.job.folder import existing
from sevenfold.job.prepare import Prepared, prepare, saved_spec
from sevenfold.job.run import Ending, Regeneration
from sevenfold.observe.progress import Progress, line

Output = Annotated[Path | None, Parameter(name=["-o", "--output"])]
NO_FLAGS = SpecFlags()


def run(
    *inputs: str, output: Output = None, fleet: Path | None = None, quiet: bool = False, flags: SpecFlags = NO_FLAGS
) -> int:
    """Regenerate every prompt of the input files.

    Starts the replicas, asks every prompt once, judges and records each answer, stops the replicas. An existing run
    folder is gone on with where the same was asked.

    Parameters
    ----------
    inputs
        Files of prompts: JSONL, JSON or Parquet, plain, .gz or .zst; globs are resolved.
    output
        Run folder. Default: ./runs/NAME-FINGERPRINT.
    fleet
        Run folder whose replicas, started by `sevenfold up`, shall answer.
    quiet
        No progress line.
    """
    return perform(flags.spec(inputs), output, fleet, quiet)


def resume(run: Path, /, *, fleet: Path | None = None, quiet: bool = False) -> int:
    """Go on with a run: asks only what has no answer yet.

    Parameters
    ----------
    run
        The run folder.
    fleet
        Run folder whose replicas, started by `sevenfold up`, shall answer.
    quiet
        No progress line.
    """
    folder = existing(run)
    return perform(saved_spec(folder), run, fleet, quiet)


def perform(spec: RunSpec, output: Path | None, fleet: Path | None, quiet: bool) -> int:
    """Runs to the end and says on stderr how it went. Returns the exit code."""
    signals: list[int] = []
    try:
        ending, prepared = uvloop.run(_perform(spec, output, fleet, quiet, signals))
    except asyncio.CancelledError:
        return 128 + signals[0] if signals else 1
    _conclude(ending, prepared)
    return 128 + signals[0] if signals else ending.exit_code


async def _perform(
    spec: RunSpec, output: Path | None, fleet: Path | None, quiet: bool, signals: list[int]
) -> tuple[Ending, Prepared]:
    prepared = await prepare(spec, output, fleet)
    for warning in prepared.warnings:
        say(f"warning: {warning}")
    say(f"run {prepared.folder.path}")
    ticker = Ticker()

    def beat(progress: Progress, job: Regeneration) -> None:
        if not quiet:
            ticker.show(describe(progress, job))

    job = Regeneration(prepared, beat)
    loop = asyncio.get_running_loop()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # an ssh that drops must not end a fourteen-hour run
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _signalled, number, signals, job)
    try:
        return await job.run(), prepared
    finally:
        ticker.close()


def _signalled(number: int, signals: list[int], job: Regeneration) -> None:
    signals.append(number)
    if len(signals) == 1:
        say("\nstopping: requests in flight may end, nothing new is asked; once more ends at once")
    job.stop()


def describe(progress: Progress, job: Regeneration) -> str:
    """The progress line, or what the replicas are doing while none is ready."""
    replicas = job.fleet.replicas
    ready = sum(replica.phase == "ready" for replica in replicas)
    if ready == 0 and replicas:
        waiting = replicas[0]
        return f"replicas 0/{len(replicas)} ready · {waiting.phase} · {waiting.reason or waiting.progress}"
    return line(progress, job.facts.in_flight, ready, len(replicas), job.counts.flagged)


def _conclude(ending: Ending, prepared: Prepared) -> None:
    tally = ending.tally
    verdicts = ", ".join(f"{name} {n:,}" for name, n in sorted(tally.verdicts.items(), key=lambda item: -item[1]))
    say(f"{ending.sentence}; verdicts: {verdicts or 'none'}; {tally.completion_tokens:,} tokens")
    say(f"  -> {ending.remedy or f'sevenfold audit {prepared.folder.path}'}")
