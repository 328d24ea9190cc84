"""A run's canary: its first accepted prompt, as every server is to answer it; and servers of others put to that test.

Where prompts are rendered here, or `fleet.tokenizer` names the model's folder, our rendering is what they are held to.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from sevenfold.config import RunSpec
from sevenfold.errors import AttemptError, FleetError, ReplicaError, RowError
from sevenfold.fleet import Canary, Panel, canary_for, listen
from sevenfold.render import Renderer, load
from sevenfold.sources import records
from sevenfold.sources.formats import Draft, Turns, drafted
from sevenfold.types import Endpoint


def canary_of(spec: RunSpec, inputs: Sequence[Path], renderer: Renderer | None) -> Canary:
    """The built-in prompt where no row is accepted or the template refuses the first. Reads up to that row.

    ConfigError where an input cannot be read."""
    canary = canary_for(spec)
    if not canary.every:
        return canary
    draft = first_accepted(inputs, spec.conversation.turns)
    if draft is not None:
        canary = msgspec.structs.replace(canary, messages=draft.turns[0], tools=draft.tools)
    local = renderer or (load(Path(spec.fleet.tokenizer)) if spec.fleet.tokenizer else None)
    if local is None:
        return canary
    kwargs = {"enable_thinking": canary.thinking is not False, **canary.template_kwargs}
    try:
        rendered = local.render(canary.messages, canary.tools, kwargs)
    except RowError:
        return canary_for(spec)
    return msgspec.structs.replace(canary, ids=rendered.ids, text=rendered.text, sends_ids=renderer is not None)


def first_accepted(inputs: Sequence[Path], turns: Turns) -> Draft | None:
    drafts = (drafted(record, turns) for path in inputs for record in records(path))
    return next((draft for draft in drafts if isinstance(draft, Draft)), None)


async def complaints(endpoints: Sequence[Endpoint], canary: Canary, api_key: str) -> dict[str, str]:
    """By URL, what is wrong with those that are unlike the others. Who does not answer is not judged: the drive finds
    that out by itself. ConfigError where one refuses us."""
    if not canary.every:
        return {}
    panel = Panel([endpoint.replica for endpoint in endpoints], endpoints[0].model, canary)

    async def ask(endpoint: Endpoint) -> None:
        try:
            said = await listen(endpoint.url, endpoint.engine, endpoint.model, canary, api_key)
        except (ReplicaError, AttemptError):
            return
        panel.hears(endpoint.replica, said)

    await asyncio.gather(*(ask(endpoint) for endpoint in endpoints))
    return {name: why for name in (e.replica for e in endpoints) if (why := panel.complaint(name))}


def require_some(endpoints: Sequence[Endpoint], wrong: dict[str, str]) -> None:
    """FleetError where all are wrong."""
    if all(endpoint.replica in wrong for endpoint in endpoints):
        said = "; ".join(f"{name}: {why}" for name, why in wrong.items())
        raise FleetError(
            f"no endpoint is fit for this run: {said}", "serve the model with its own template, thinking on"
        )
