"""Whether replies must think, and whether the server still renders as it did when this run began."""

import hashlib

import msgspec

from sevenfold import fleet
from sevenfold.errors import ConfigError
from sevenfold.job.prepare import Prepared
from sevenfold.ledger import write_manifest
from sevenfold.types import Endpoint

SIGNS = ("<think>", "enable_thinking", "reasoning_content")
"""What a chat template of a thinking model mentions (Qwen3, DeepSeek-R1, GLM and their kin)."""


async def settle(endpoint: Endpoint, prepared: Prepared) -> bool:
    """Asks the server for its template; records hash and decision in the manifest.

    ConfigError where the template is not the one that this run began with."""
    server = await fleet.describe(endpoint)
    manifest = prepared.manifest
    known = manifest.model.get("template_sha256")
    template = hashlib.sha256(server.template.encode()).hexdigest() if server.template is not None else None
    if known is not None and template is not None and known != template:
        raise ConfigError(
            f"{endpoint.url} renders with another chat template than this run began with "
            f"(sha256 {template[:12]}, not {known[:12]})",
            "serve the model with its old template, or start a new run with -o",
        )
    thinking = decide(prepared.spec.conversation.thinking, server.template)
    model = {**manifest.model, "template_sha256": template or known, "thinking": thinking, "engine": server.version}
    if model != manifest.model:
        write_manifest(prepared.folder.path, msgspec.structs.replace(manifest, model=model))
    return thinking


def decide(wanted: bool | None, template: str | None) -> bool:
    """What was asked for; else what the template can do; else yes, since thinking is what this tool is for."""
    if wanted is not None:
        return wanted
    return template is None or any(sign in template for sign in SIGNS)
