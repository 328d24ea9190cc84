import tomllib
from pathlib import Path

import pytest

from sevenfold.errors import ConfigError
from sevenfold.job import profiles

BASE = "qwen3.6-27b-b200-asfound"


def own(home: Path, name: str, text: str) -> Path:
    path = home / "config" / "sevenfold" / "profiles" / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_shipped_and_own_profiles_stand_in_one_list(home):
    path = own(home, "mine", f'extends = "{BASE}"\ndescription = "my own"\n')
    listed = {one.name: one for one in profiles.listing()}
    assert listed[BASE].where == "shipped"
    assert (listed["mine"].where, listed["mine"].profile) == (str(path), profiles.load("mine"))


def test_a_broken_profile_is_listed_with_its_reason_and_hides_no_other(home):
    own(home, "broken", "engine = \n")
    own(home, "odd", 'engine = "sglang"\nflag = 3\n')
    listed = {one.name: one for one in profiles.listing()}
    assert listed["broken"].profile is None
    assert "cannot be read" in listed["broken"].trouble
    assert "unknown key flag" in listed["odd"].trouble
    assert listed[BASE].profile is not None


def test_any_file_can_be_named_and_extend_a_named_profile(home):
    path = home / "here.toml"
    path.write_text(f'extends = "{BASE}"\n[flags]\nmax-mamba-cache-size = 160\n')
    profile = profiles.load(str(path))
    assert (profile.name, profile.flags["max-mamba-cache-size"], profile.replicas) == ("here", 160, 7)
    with pytest.raises(ConfigError, match="no such profile"):
        profiles.load(str(home / "none.toml"))


def test_a_new_profile_is_its_parent_until_it_is_changed():
    path, notes = profiles.new("mine", BASE)
    assert notes == []
    mine, parent = profiles.load("mine"), profiles.load(BASE)
    assert (mine.flags, mine.env, mine.replicas) == (parent.flags, parent.env, parent.replicas)
    path.write_text(path.read_text().replace("# max-mamba-cache-size = 80", "max-mamba-cache-size = 240"))
    assert profiles.load("mine").flags == {**parent.flags, "max-mamba-cache-size": 240}


def test_flags_that_have_another_name_in_the_version_are_renamed_and_said():
    _, notes = profiles.new("newer", BASE, "0.5.23")
    newer, parent = profiles.load("newer"), profiles.load(BASE)
    assert [note.instead for note in notes] == ["mamba-radix-cache-strategy"]
    assert newer.engine_version == "0.5.23"
    assert newer.flags["mamba-radix-cache-strategy"] == parent.flags["mamba-scheduler-strategy"]
    assert "mamba-scheduler-strategy" not in newer.flags


def test_no_name_is_given_twice_and_no_file_overwritten(home):
    profiles.new("mine", BASE)
    for name in ("mine", BASE):
        with pytest.raises(ConfigError, match=f"a profile is called {name} already"):
            profiles.new(name, BASE)
    there = home / "there.toml"
    there.write_text("mine\n")
    with pytest.raises(ConfigError, match="is there already"):
        profiles.new(str(there), BASE)
    assert there.read_text() == "mine\n"
    with pytest.raises(ConfigError, match="is no name"):
        profiles.new("-x", BASE)


@pytest.mark.parametrize("name", [one.name for one in profiles.listing() if one.where == "shipped"])
def test_what_is_shown_is_a_profile_that_means_the_same(name, home):
    profile = profiles.load(name)
    text = profiles.written(profile)
    assert tomllib.loads(text)["flags"] == profile.flags
    (home / f"{name}.toml").write_text(text)
    assert profiles.load(str(home / f"{name}.toml")) == profile
