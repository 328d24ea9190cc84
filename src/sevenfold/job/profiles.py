"""Launch profiles where they lie: those shipped, the user's own, and any file named by its path.

The user's folder is $XDG_CONFIG_HOME/sevenfold/profiles; a profile there wins over a shipped one of the same name.
What a profile means is for `capacity.profile` to say.
"""

import os
import re
import tomllib
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import msgspec

from sevenfold.capacity.profile import Profile, resolve
from sevenfold.engines.rules import Finding, renamed
from sevenfold.errors import ConfigError

NAME = re.compile(r"[A-Za-z0-9][\w.-]*")

AS_FOUND = "qwen3.6-27b-b200-asfound"
"""What the others are compared with."""

Tables = dict[str, dict[str, Any]]


class Listed(msgspec.Struct, frozen=True):
    """A profile, or why it is none, and where it lies."""

    name: str
    where: str
    """'shipped', or the file's path."""
    profile: Profile | None
    trouble: str = ""


def user_folder() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "sevenfold" / "profiles"


def load(name: str) -> Profile:
    """By name, or by the path of a TOML file. ConfigError where there is none, or it is not a profile."""
    found = _found()
    if _is_path(name):
        path = Path(name).expanduser()
        name = path.stem
        found[name] = (str(path), path)
    # A broken file must not hide the other profiles; the one that is asked for is refused.
    return resolve(name, {key: _table(*place) for key, place in found.items() if key == name or _parses(*place)})


def listing() -> list[Listed]:
    """Every profile by name; one that cannot be read is listed with the reason."""
    listed: list[Listed] = []
    for name, (where, _) in sorted(_found().items()):
        try:
            listed.append(Listed(name, where, load(name)))
        except ConfigError as error:
            listed.append(Listed(name, where, None, error.message))
    return listed


def new(name: str, base: str, engine_version: str = "") -> tuple[Path, list[Finding]]:
    """Writes a profile that extends `base` and returns its file, with a note for each flag that has another name in
    `engine_version`. ConfigError where the name is taken."""
    parent = load(base)
    if _is_path(base):
        raise ConfigError(f"{base}: only a profile with a name can be extended", f"copy it into {user_folder()}")
    path = Path(name).expanduser() if _is_path(name) else user_folder() / f"{name}.toml"
    if not NAME.fullmatch(path.stem):
        raise ConfigError(f"{name!r} is no name for a profile", "letters, digits, dots, dashes and underscores")
    if path.stem in _found():
        raise ConfigError(f"a profile is called {path.stem} already", "sevenfold profile list")
    mapped, notes = renamed(parent.engine, engine_version, parent.flags) if engine_version else (parent.flags, [])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(_child(parent, engine_version, mapped))
    except FileExistsError:
        raise ConfigError(f"{path}: is there already", "choose another name") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None
    return path, notes


def written(profile: Profile) -> str:
    """The profile as TOML, nothing inherited any more."""
    lines = [f"{key} = {_toml(value)}" for key, value in _heads(profile)]
    for part, values in (("env", profile.env), ("flags", profile.flags)):
        if values:
            lines += ["", f"[{part}]", *(f"{_key(key)} = {_toml(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _heads(profile: Profile) -> list[tuple[str, Any]]:
    fields = (field.name for field in msgspec.structs.fields(Profile) if field.name not in ("name", "env", "flags"))
    return [(name, getattr(profile, name)) for name in fields]


def _child(parent: Profile, engine_version: str, flags: dict[str, Any]) -> str:
    """Only what differs is set; what is inherited stands there as comments, to be changed."""
    lines = [f"# What is not said here is as in {parent.name}: sevenfold profile show {parent.name}"]
    lines += [f"extends = {_toml(parent.name)}", 'description = ""']
    if engine_version:
        lines.append(f"engine_version = {_toml(engine_version)}")
    lines += ["", "[flags]", "# A flag set to false takes the inherited one away."]
    lines += [f"{_key(name)} = false" for name in parent.flags if name not in flags]
    lines += [f"{_key(name)} = {_toml(value)}" for name, value in flags.items() if name not in parent.flags]
    lines += [f"# {_key(name)} = {_toml(value)}" for name, value in flags.items() if name in parent.flags]
    return "\n".join(lines) + "\n"


def _is_path(name: str) -> bool:
    return "/" in name or name.endswith(".toml")


def _found() -> dict[str, tuple[str, Traversable]]:
    """Where each profile lies, by name."""
    shipped = resources.files("sevenfold").joinpath("profiles").iterdir()
    own = sorted(user_folder().glob("*.toml"))
    found = {_name(file.name): ("shipped", file) for file in shipped if file.name.endswith(".toml")}
    return {**found, **{_name(path.name): (str(path), path) for path in own}}


def _name(file: str) -> str:
    return file.removesuffix(".toml")


def _parses(where: str, file: Traversable) -> bool:
    try:
        _table(where, file)
    except ConfigError:
        return False
    return True


def _table(where: str, file: Traversable) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{where}: no such profile", "sevenfold profile list") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"profile {where}: cannot be read: {error}") from None


def _key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else _toml(name)


def _toml(value: str | int | float | bool) -> str:
    """JSON's scalars are TOML's."""
    return msgspec.json.encode(value).decode()
