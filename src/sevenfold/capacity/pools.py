"""What the engines' memory rules have in common: reading flags, and the pools that come out.

It knows no engine's rules.
"""

from collections.abc import Mapping

import msgspec

from sevenfold.capacity.roofline import Precision
from sevenfold.errors import ConfigError

FlagValue = str | int | float | bool


class Limit(msgspec.Struct, frozen=True):
    """One upper bound of the running requests: how many, why, and which flag lifts it."""

    running: int
    why: str
    lift: str

    @property
    def sentence(self) -> str:
        return f"{self.why}; {self.lift}"


class Pools(msgspec.Struct, frozen=True, kw_only=True):
    """What one replica allocates on each of its GPUs. Bytes are per GPU, weights are of the whole replica."""

    weights_bytes: int
    """Of the model and of its draft layers where they are used, once loaded."""
    kv_tokens: int
    kv_bytes: int
    state_slots: int
    state_bytes: int
    verify_bytes: int = 0
    """Intermediate states that speculation keeps for the requests that can run."""
    limits: tuple[Limit, ...]
    """At least one. The lowest binds, the first of equals."""
    precision: Precision
    verified: int = 0
    """Tokens verified per step; 0 without speculation."""
    gpus: int = 1
    notes: tuple[str, ...] = ()

    @property
    def binding(self) -> Limit:
        return min(self.limits, key=lambda limit: limit.running)


class Flags:
    """Engine flags by the engine's own names, without dashes in front; '_' and '-' mean the same. false: not given."""

    def __init__(self, flags: Mapping[str, FlagValue]) -> None:
        self._values = {name.lstrip("-").replace("_", "-"): value for name, value in flags.items()}

    def has(self, name: str) -> bool:
        return self._values.get(name, False) is not False

    def switch(self, name: str) -> bool:
        value = self._values.get(name, False)
        if not isinstance(value, bool):
            raise ConfigError(f"--{name} {value}: this flag takes no value", f"{name} = true")
        return value

    def text(self, name: str, default: str = "") -> str:
        return str(self._values[name]) if self.has(name) else default

    def number(self, name: str) -> float | None:
        if not self.has(name):
            return None
        try:
            return float(self._values[name])
        except ValueError:
            raise ConfigError(f"--{name} {self._values[name]}: not a number") from None

    def count(self, name: str) -> int | None:
        number = self.number(name)
        if number is None:
            return None
        if number != int(number) or number < 0:
            raise ConfigError(f"--{name} {self._values[name]}: not a count")
        return int(number)
