"""`up`, `down` and `logs`: replicas without a run, from any shell."""

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from sevenfold import fleet
from sevenfold.cli.flags import SpecFlags
from sevenfold.cli.output import put
from sevenfold.cli.talk import Ticker, say
from sevenfold.errors import ConfigError, FleetError
from sevenfold.job.folder import RunFolder, latest
from sevenfold.job.planning import launch_plan
from sevenfold.node.models import resolve
from sevenfold.types import FleetStatus

FLEET_FOLDER = Path("runs/fleet")
NO_FLAGS = SpecFlags()
LOOK = 0.5
"""Seconds between looks at a log that is followed."""


def up(
    *, output: Annotated[Path, Parameter(name=["-o", "--output"])] = FLEET_FOLDER, flags: SpecFlags = NO_FLAGS
) -> int:
    """Start the replicas and wait until each has answered its first request. They stay until `down`.

    Parameters
    ----------
    output
        Run folder in which they live; `sevenfold run -o` the same folder, or `--fleet` it, uses them.
    """
    return asyncio.run(_up(output, flags))


async def _up(output: Path, flags: SpecFlags) -> int:
    spec = flags.spec()
    if spec.fleet.endpoints or spec.fleet.engine == "openai":
        raise ConfigError("endpoints that run already need no `up`", "sevenfold run prompts.jsonl --endpoint URL")
    folder = RunFolder(output)
    folder.create()
    model = resolve(spec.model, spec.fleet.engine, weights=spec.fleet.loads_weights)
    plan = await asyncio.to_thread(launch_plan, spec, model, output)
    await asyncio.to_thread(fleet.start, output, plan)
    ticker = Ticker()
    try:
        status = await _until_settled(output, ticker)
    finally:
        ticker.close()
    ready = status.endpoints
    for endpoint in ready:
        put(endpoint.url)
    for replica in status.replicas:
        if replica.phase not in ("ready", "suspect"):
            say(f"replica {replica.name} is {replica.phase}: {replica.reason}")
        if replica.warning:
            say(f"warning: replica {replica.name}: {replica.warning}")
    if not ready:
        await asyncio.to_thread(fleet.stop, output)
        raise FleetError(status.ended or "no replica came up", f"sevenfold logs {output}")
    say(f"{len(ready)} of {len(status.replicas)} replicas ready")
    say(f"  -> sevenfold run prompts.jsonl --fleet {output}; sevenfold down {output}")
    return 0 if len(ready) == len(status.replicas) else FleetError.exit_code


async def _until_settled(output: Path, ticker: Ticker) -> FleetStatus:
    async for status in fleet.follow(output):
        waiting = [replica for replica in status.replicas if replica.phase in ("starting", "warming", "backoff")]
        if status.ended or not waiting:
            return status
        first = waiting[0]
        ready = len(status.endpoints)
        ticker.show(f"replicas {ready}/{len(status.replicas)} ready · {first.name} {first.phase} · {first.progress}")
    raise FleetError("the supervisor is gone", f"sevenfold logs {output} supervisor")


def down(run: Path | None = None, /) -> int:
    """Stop the replicas of a run folder, and whatever a crash left of them.

    Parameters
    ----------
    run
        The folder. Default: the latest under ./runs.
    """
    folder = run or latest()
    stopped = fleet.stop(folder)
    say(f"stopped {', '.join(stopped)}" if stopped else f"nothing of {folder} was running")
    return 0


def restart(run: Path, replica: str, /) -> int:
    """Stop one replica and start it again. What it is answering may end first; it gets nothing new.

    Parameters
    ----------
    run
        The folder in which the replica lives.
    replica
        Its name: 0, 1, ...
    """
    return _ask(run, replica, "restart", f"sevenfold status {run}")


def drain(run: Path, replica: str, /) -> int:
    """Stop one replica and leave it down until `restart`. What it is answering may end first; it gets nothing new.

    Parameters
    ----------
    run
        The folder in which the replica lives.
    replica
        Its name: 0, 1, ...
    """
    return _ask(run, replica, "drain", f"sevenfold restart {run} {replica} brings it back")


def _ask(run: Path, replica: str, what: fleet.What, then: str) -> int:
    fleet.ask(run, replica, what)
    say(f"replica {replica} is asked to {what}\n  -> {then}")
    return 0


def logs(
    run: Path | None = None,
    replica: str | None = None,
    /,
    *,
    follow: Annotated[bool, Parameter(name=["-f", "--follow"], negative=())] = False,
    lines: Annotated[int, Parameter(name=["-n", "--lines"])] = 50,
) -> int:
    """Print the end of the replicas' logs.

    Parameters
    ----------
    run
        The run folder. Default: the latest under ./runs.
    replica
        A replica's name, or 'supervisor'. Default: all.
    follow
        Go on printing what is added, until interrupted.
    lines
        How many lines of each log.
    """
    folder = RunFolder(run or latest())
    files = sorted(folder.logs.glob("*.log"))
    wanted = [path for path in files if replica in (None, path.stem, path.stem.removeprefix("replica-"))]
    if not wanted:
        known = ", ".join(path.stem for path in files) or "none"
        raise ConfigError(f"{folder.logs}: no such log", f"logs here: {known}")
    for path in wanted:
        for text in path.read_text(errors="replace").splitlines()[-lines:]:
            put(f"{path.stem}: {clean(text)}" if len(wanted) > 1 else clean(text))
    if follow:
        sys.stdout.flush()
        for name, text in _grown(wanted):
            put(f"{name}: {clean(text)}" if len(wanted) > 1 else clean(text))
            sys.stdout.flush()
    return 0


def clean(text: str) -> str:
    """Without control characters: a log may carry what a model wrote."""
    return "".join(c for c in text if c == "\t" or c.isprintable())


def _grown(paths: list[Path]) -> Iterator[tuple[str, str]]:
    at = {path: path.stat().st_size for path in paths}
    while True:
        for path in paths:
            with path.open("rb") as file:
                file.seek(at[path])
                added = file.read()
            end = added.rfind(b"\n") + 1
            at[path] += end
            for line in added[:end].decode(errors="replace").splitlines():
                yield path.stem, line
        time.sleep(LOOK)
