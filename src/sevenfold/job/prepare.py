"""Everything that can be refused before anything is started: inputs, folder, disk, model, and what the folder holds.

A run folder belongs to one fingerprint for ever: what was asked (model, sampling, conversation), never how fast.
"""

import asyncio
import socket
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from sevenfold import __version__
from sevenfold.config import RunSpec, asked, dump, fingerprint, read
from sevenfold.errors import ConfigError, FleetError, NodeError
from sevenfold.fleet import Canary, identify
from sevenfold.job.canary import canary_of, complaints, require_some
from sevenfold.job.folder import RunFolder, default_folder
from sevenfold.ledger import Manifest, atomic_write, create, read_manifest, write_manifest
from sevenfold.node.models import Model, resolve
from sevenfold.node.mounts import require_local
from sevenfold.node.trial import RUN, attempt, faults
from sevenfold.render import Renderer, load
from sevenfold.sources import expand
from sevenfold.types import JSON, Endpoint, is_object

EXTERNAL_SLOTS = 64
"""Requests in flight per endpoint that somebody else started, when the spec names no number: enough to fill a small
server's batch without flooding its queue."""

TOKEN_EXACT = frozenset({"sglang"})
"""Engines that are given prompts as ids. llama.cpp and vLLM render themselves and tell the ids they saw."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that may start. `model` is None where the endpoints are somebody else's."""

    folder: RunFolder
    spec: RunSpec
    inputs: tuple[Path, ...]
    manifest: Manifest
    model: Model | None
    fleet: Path
    """The folder whose supervisor's replicas answer: the run's own, or one that `up` filled."""
    renderer: Renderer | None = None
    """Where prompts are rendered here and go out as token ids: engines that take ids, models with a tokenizer."""
    endpoints: tuple[Endpoint, ...] = ()
    warnings: tuple[str, ...] = ()
    canary: Canary = field(default_factory=Canary)


async def prepare(spec: RunSpec, output: Path | None, fleet: Path | None = None) -> Prepared:
    """Checks all, then makes the folder. ConfigError or NodeError name what to change; nothing was started."""
    if not spec.inputs:
        raise ConfigError("no file of prompts was named", "sevenfold run prompts.jsonl")
    inputs = tuple(path.absolute() for path in expand(spec.inputs))
    model, endpoints, warnings, identity = await _who_answers(spec)
    renderer = _renderer(spec, model)
    canary = await asyncio.to_thread(canary_of, spec, inputs, renderer)
    if endpoints:
        wrong = await complaints(endpoints, canary, spec.fleet.api_key)
        require_some(endpoints, wrong)
        warnings += tuple(f"{name}: left out: {why}" for name, why in wrong.items())
        endpoints = tuple(endpoint for endpoint in endpoints if endpoint.replica not in wrong)
    content: JSON = {**asked(spec), "model": identity}
    mark = fingerprint(content)
    folder = RunFolder(output or default_folder(spec.inputs, mark))
    if folder.manifest.is_file():
        manifest = read_manifest(folder.path)
        if manifest.fingerprint != mark:
            raise ConfigError(
                f"{folder.path}: this folder holds another run: {difference(manifest.asked, content)}",
                "give the new run a folder of its own with -o, or ask for the same",
            )
    else:
        folder.create()
        require_local(folder.path, "the run folder")
        require_usable(folder.path)
        create(folder.path)
        manifest = Manifest(
            version=__version__,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            fingerprint=mark,
            asked=content,
            model=identity,
            host=socket.gethostname(),
        )
        write_manifest(folder.path, manifest)
    atomic_write(folder.spec, dump(spec))
    return Prepared(folder, spec, inputs, manifest, model, fleet or folder.path, renderer, endpoints, warnings, canary)


def _renderer(spec: RunSpec, model: Model | None) -> Renderer | None:
    if spec.fleet.engine not in TOKEN_EXACT:
        return None
    if spec.fleet.tokenizer:
        return load(Path(spec.fleet.tokenizer))
    return load(model.path) if model else None


def require_usable(folder: Path) -> None:
    """NodeError where it cannot do what a run does there, tried with one tiny file."""
    found = faults(attempt(folder), RUN)
    if found:
        remedy = "name a local folder with -o, upload what is exported"
        raise NodeError(f"{folder}: the run folder fails: {', '.join(found)}", remedy)


def saved_spec(folder: RunFolder) -> RunSpec:
    """What the run was asked for the last time."""
    try:
        return read(folder.spec)
    except OSError as error:
        raise ConfigError(f"{folder.spec}: cannot be read: {error}") from None


def difference(old: JSON, new: JSON, prefix: str = "") -> str:
    """'sampling.temperature 0.6 -> 1.0, ...' between two nested tables."""
    parts: list[str] = []
    for key in sorted(old.keys() | new.keys()):
        was, now = old.get(key), new.get(key)
        if is_object(was) and is_object(now):
            below = difference(was, now, f"{prefix}{key}.")
            parts += [below] if below else []
        elif was != now:
            parts.append(f"{prefix}{key} {was!r} -> {now!r}")
    return ", ".join(parts)


async def _who_answers(spec: RunSpec) -> tuple[Model | None, tuple[Endpoint, ...], tuple[str, ...], JSON]:
    if spec.fleet.endpoints:
        endpoints, warnings = await _external(spec)
        return None, endpoints, warnings, {"name": endpoints[0].model}
    if spec.fleet.engine == "openai":
        raise ConfigError("engine 'openai' needs somebody's endpoints", "add --endpoint URL")
    model = resolve(spec.model, spec.fleet.engine, weights=spec.fleet.loads_weights)
    identity: JSON = dict(model.identity)
    return model, (), (), identity


async def _external(spec: RunSpec) -> tuple[tuple[Endpoint, ...], tuple[str, ...]]:
    """Every endpoint that answers with the model asked for. One that serves another model refuses the run."""
    endpoints: list[Endpoint] = []
    warnings: list[str] = []
    model = spec.model
    for named in spec.fleet.endpoints:
        url = named.rstrip("/").removesuffix("/v1")  # people name it either way
        found = await identify(url, spec.fleet.engine, model, spec.fleet.api_key)
        if isinstance(found, str):
            warnings.append(f"{url}: left out: {found}")
            continue
        if model and found.model != model:
            raise ConfigError(f"{url} serves {found.model!r}, not {model!r}", "name its model with --model, or drop it")
        model = found.model
        endpoints.append(
            Endpoint(url, url, model, spec.fleet.engine, spec.fleet.slots or found.slots or EXTERNAL_SLOTS)
        )
    if not endpoints:
        raise FleetError("no endpoint answers: " + "; ".join(warnings), "start the servers, or check the URLs")
    return tuple(endpoints), tuple(warnings)
