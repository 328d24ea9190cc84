import tomllib
from importlib import resources
from typing import Any

import pytest

from sevenfold.capacity.gpu import find_gpu
from sevenfold.capacity.model import model_shape
from sevenfold.capacity.plan import plan_replica
from sevenfold.capacity.profile import resolve
from sevenfold.capacity.roofline import Lengths
from sevenfold.errors import ConfigError
from tests.capacity.shapes import QWEN36_27B

BASE: dict[str, Any] = {
    "description": "the base",
    "engine": "sglang",
    "engine_version": "0.5.11",
    "model": "m",
    "gpu": "H200",
    "env": {"A": "1"},
    "flags": {"tp-size": 1, "disable-radix-cache": True},
}

SHIPPED = {
    file.name.removesuffix(".toml"): tomllib.loads(file.read_text(encoding="utf-8"))
    for file in resources.files("sevenfold.profiles").iterdir()
    if file.name.startswith("qwen") and file.name.endswith(".toml")
}


def test_a_child_overrides_key_by_key_and_takes_flags_away():
    child = {"extends": "base", "gpu": "B200", "env": {"B": "2"}, "flags": {"disable-radix-cache": False, "x": 3}}
    profile = resolve("child", {"base": BASE, "child": child})
    assert (profile.name, profile.gpu, profile.description) == ("child", "B200", "")
    assert profile.env == {"A": "1", "B": "2"}
    assert profile.flags == {"tp-size": 1, "x": 3}


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({}, "profile 'p': no such profile"),
        ({"p": {**BASE, "extends": "bace"}, "base": BASE}, "profile p: extends 'bace': no such profile\n.*base"),
        ({"p": {"extends": "q"}, "q": {"extends": "p"}}, "extends itself: p -> q -> p"),
        ({"p": {**BASE, "engin_version": "1"}}, "unknown key engin_version\n.*did you mean engine_version"),
        ({"p": {**BASE, "zzz": "1"}}, "unknown key zzz\n.*known: base_port"),
        ({"p": {"engine": "sglang"}}, "profile p: .*engine_version"),
        ({"p": {**BASE, "replicas": 0}}, "profile p: .*replicas"),
        ({"p": {**BASE, "flags": 3}}, "profile p: .*flags"),
    ],
)
def test_mistakes_name_the_profile_and_the_nearest_word(tables, says):
    with pytest.raises(ConfigError, match=says):
        resolve("p", tables)


def test_the_as_found_launch_is_word_for_word():
    profile = resolve("qwen3.6-27b-b200-asfound", SHIPPED)
    assert (profile.engine, profile.engine_version, profile.replicas, profile.base_port) == (
        "sglang",
        "0.5.11",
        7,
        30000,
    )
    assert profile.env == {"SGLANG_ENABLE_SPEC_V2": "1"}
    words = " ".join(f"--{flag}" if value is True else f"--{flag} {value}" for flag, value in profile.flags.items())
    assert words == (
        "--speculative-algorithm EAGLE --speculative-num-steps 3 --speculative-eagle-topk 1 "
        "--speculative-num-draft-tokens 4 --mamba-scheduler-strategy extra_buffer --max-mamba-cache-size 80 "
        "--mamba-full-memory-ratio 0.4 --mem-fraction-static 0.9 --context-length 8192 --reasoning-parser qwen3 "
        "--trust-remote-code"
    )


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_every_shipped_profile_says_itself_what_binds_and_leaves_room(name):
    """Where a profile is ours, its own --max-running-requests is the limit: memory bears at least that many."""
    profile = resolve(name, SHIPPED)
    lengths = Lengths(prompt=180, output=2000, spread=0.8)
    plan = plan_replica(model_shape(QWEN36_27B), find_gpu(profile.gpu), profile.flags, profile.engine_version, lengths)
    assert profile.description
    if name.endswith("asfound"):
        assert plan.max_running_requests == 16
    else:
        assert plan.binding_limit.startswith(f"--max-running-requests {profile.flags['max-running-requests']} binds")
        assert plan.sustained == plan.max_running_requests


def test_each_gpus_own_profile_beats_the_launch_as_found():
    lengths = Lengths(prompt=180, output=2000, spread=0.8)
    speed = {}
    for name in ("qwen3.6-27b-b200-asfound", "qwen3.6-27b-b200", "qwen3.6-27b-b200-fast"):
        profile = resolve(name, SHIPPED)
        shape, gpu = model_shape(QWEN36_27B), find_gpu(profile.gpu)
        plan = plan_replica(shape, gpu, profile.flags, profile.engine_version, lengths)
        speed[name] = plan.tokens_per_second.end_to_end
    assert list(speed.values()) == sorted(speed.values())
