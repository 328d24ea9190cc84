"""`profile`: the launch profiles, those shipped and one's own."""

from typing import Annotated

from cyclopts import App, Parameter

from sevenfold.cli.output import put, put_json
from sevenfold.cli.talk import say
from sevenfold.job import profiles

profile = App(name="profile", help="List, show and make launch profiles.", help_format="plaintext")


@profile.command(name="list")
def show_all(*, json: bool = False) -> int:
    """List every profile: those shipped, and those of $XDG_CONFIG_HOME/sevenfold/profiles.

    Parameters
    ----------
    json
        One JSON array on stdout.
    """
    listed = profiles.listing()
    if json:
        put_json(listed)
        return 0
    width = max((len(one.name) for one in listed), default=0)
    for one in listed:
        if one.profile is None:
            put(f"{one.name:{width}}  cannot be used: {one.trouble}")
            continue
        what = f"{one.profile.engine} {one.profile.engine_version}"
        place = "" if one.where == "shipped" else f"  [{one.where}]"
        put(f"{one.name:{width}}  {one.profile.gpu:6} {what:14} {one.profile.description}{place}")
    return 0


@profile.command
def show(name: str, /, *, json: bool = False) -> int:
    """Print a profile with all that it inherits, as TOML.

    Parameters
    ----------
    name
        A profile's name, or the path of a TOML file.
    json
        One JSON object on stdout.
    """
    found = profiles.load(name)
    if json:
        put_json(found)
    else:
        put(profiles.written(found).rstrip("\n"))
    return 0


@profile.command
def new(name: str, /, *, base: Annotated[str, Parameter(name="--from")], engine_version: str = "") -> int:
    """Write a profile of one's own that extends another. Its path is printed: change it there.

    Parameters
    ----------
    name
        Its name, or a path ending in .toml.
    base
        The profile to extend.
    engine_version
        The engine's version that it is for; flags that have another name there are renamed.
    """
    path, notes = profiles.new(name, base, engine_version)
    for note in notes:
        say(f"{note.severity}: {note.sentence}")
    put(str(path))
    say(f"  -> sevenfold plan --profile {name}")
    return 0
