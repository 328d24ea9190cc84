"""A launch profile: engine, version, model, GPU, replicas and the engine's flags under the engine's own names.

Profiles come in as parsed TOML, by name; one may extend another. Nothing here reads files or knows what a flag means.
In a child, a flag set to false takes the parent's flag away.
"""

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from sevenfold.errors import ConfigError

Flag = str | int | float | bool


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: str
    description: str = ""
    """One line for the list of profiles."""
    engine: Literal["sglang", "vllm", "llamacpp", "fake"]
    engine_version: str
    """The version it was written for: flags move between versions."""
    model: str
    """Path, or a hub's name of the model."""
    gpu: str
    """A name of the GPU table."""
    replicas: Annotated[int, msgspec.Meta(ge=1)] = 1
    """One per GPU, unless the flags spread a replica over several."""
    base_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    """Replica i listens on base_port + i. 0: any free port."""
    env: dict[str, str] = {}
    """Added to the environment of each replica."""
    flags: dict[str, Flag] = {}
    """Without dashes in front; true for a flag without value."""


def resolve(name: str, profiles: Mapping[str, Mapping[str, Any]]) -> Profile:
    """The profile called `name` out of parsed TOML tables by name, parents merged in.

    ConfigError on an unknown name, key or parent (with the nearest name), a circle of parents, a missing key or a value
    of the wrong type."""
    merged: dict[str, Any] = {}
    for link in reversed(_lineage(name, profiles)):
        table = profiles[link]
        _refuse_unknown(link, table)
        merged = _over(merged, table)
    flags = merged.get("flags")
    if isinstance(flags, dict):
        merged["flags"] = {flag: value for flag, value in flags.items() if value is not False}  # pyright: ignore[reportUnknownVariableType] TOML
    merged.pop("extends", None)
    try:
        return msgspec.convert({**merged, "name": name}, Profile)
    except msgspec.ValidationError as error:
        raise ConfigError(f"profile {name}: {error}") from None


def _lineage(name: str, profiles: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The profile and its parents, nearest first."""
    links: list[str] = []
    link: Any = name
    while link is not None:
        where = f"profile {links[-1]}: extends" if links else "profile"
        if not isinstance(link, str) or link not in profiles:
            raise ConfigError(f"{where} {link!r}: no such profile", _nearest(str(link), list(profiles)))
        if link in links:
            raise ConfigError(f"profile {name}: extends itself: {' -> '.join([*links, link])}")
        links.append(link)
        link = profiles[link].get("extends")
    return links


def _refuse_unknown(name: str, table: Mapping[str, Any]) -> None:
    known = [field.name for field in msgspec.structs.fields(Profile) if field.name != "name"] + ["extends"]
    for key in table:
        if key not in known:
            raise ConfigError(f"profile {name}: unknown key {key}", _nearest(key, known))


def _over(under: dict[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of `table` win; `env` and `flags` are merged key by key. A description is never inherited."""
    merged = {key: value for key, value in under.items() if key != "description"} | dict(table)
    for part in ("env", "flags"):
        below, above = under.get(part), table.get(part)
        if isinstance(below, dict) and isinstance(above, dict):
            merged[part] = {**below, **above}
    return merged


def _nearest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}"
