"""The flags that say what to ask and where, shared by the verbs that start something; and how they become a RunSpec."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from sevenfold.config import RunSpec, load
from sevenfold.errors import ConfigError
from sevenfold.job import profiles
from sevenfold.types import JSON


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SpecFlags:
    config: Annotated[Path | None, Parameter(name=["-c", "--config"])] = None
    """TOML run file. Flags win over SEVENFOLD_* variables, those over the file, the file over defaults."""
    profile: str | None = None
    """Launch profile whose engine, flags and environment to use: a name of `sevenfold profile list`, or a TOML file."""
    model: str | None = None
    """Local GGUF file or model folder, hf:ORG/NAME@REVISION, or the name that the endpoints serve."""
    engine: Literal["llamacpp", "sglang", "vllm", "openai", "fake"] | None = None
    """Program behind each replica."""
    replicas: int | None = None
    """Replicas to start on this machine."""
    endpoint: Annotated[list[str], Parameter(negative=())] = field(default_factory=list[str])
    """URL of an OpenAI-compatible server that runs already; may be given several times."""
    slots: int | None = None
    """Requests in flight per replica."""
    max_tokens: int | None = None
    """Most tokens of one completion, reasoning included."""
    temperature: float | None = None
    """Sampling temperature."""
    seed: int | None = None
    """Sample i of a prompt is asked with SEED + i."""
    samples: int | None = None
    """Completions per prompt."""
    turns: Literal["last", "all"] | None = None
    """Answer the last user turn, or regenerate every assistant turn in order."""
    thinking: bool | None = None
    """Whether replies must think; without it the model's chat template decides."""
    set: Annotated[list[str], Parameter(negative=())] = field(default_factory=list[str])
    """Any setting of the run file as KEY=VALUE, such as judge.limits.truncated=0.5; may be given several times."""

    def spec(self, inputs: tuple[str, ...] = ()) -> RunSpec:
        """The resolved spec. ConfigError names what is wrong."""
        table: JSON = {
            "inputs": list(inputs) or None,
            "model": self.model,
            "fleet": {
                "engine": self.engine or ("openai" if self.endpoint else None),
                "replicas": self.replicas,
                "endpoints": self.endpoint or None,
                "slots": self.slots,
            },
            "sampling": {"max_tokens": self.max_tokens, "temperature": self.temperature, "seed": self.seed},
            "conversation": {"samples": self.samples, "turns": self.turns, "thinking": self.thinking},
        }
        for setting in self.set:
            _put(table, setting)
        return load(self.config, table, profile=_launch(self.profile) if self.profile else None)


def _launch(name: str) -> JSON:
    """What a profile says, in the terms of the run file."""
    found = profiles.load(name)
    fleet: JSON = {"engine": found.engine, "replicas": found.replicas, "flags": found.flags, "env": found.env}
    if found.base_port:
        fleet["base_port"] = found.base_port
    return {"model": found.model, "fleet": fleet}


def _put(table: JSON, setting: str) -> None:
    key, equals, text = setting.partition("=")
    if not equals or not key:
        raise ConfigError(f"--set {setting}: not KEY=VALUE", "such as --set judge.limits.truncated=0.5")
    *parts, last = key.split(".")
    for part in parts:
        table = table.setdefault(part, {})
    table[last] = _value(text)


def _value(text: str) -> Any:
    """A TOML value, or the text itself where it is none."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
