"""What `doctor` is asked about, and the facts that several probes share, each looked up once."""

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from sevenfold.node import devices, interpreter

T = TypeVar("T")

ENGINE_PATIENCE = 60.0
"""Seconds for the engine's import where there are GPUs: from a network mount it takes that long."""
ENGINE_PATIENCE_WITHOUT_GPU = 6.0
"""Where there is none it is not waited for: the whole examination takes less than ten seconds there."""


class Once(Generic[T]):
    """The first who asks finds it out; the others wait for him."""

    def __init__(self, find: Callable[[], T]) -> None:
        self._find, self._lock = find, threading.Lock()
        self._found: list[T] = []

    def __call__(self) -> T:
        with self._lock:
            if not self._found:
                self._found.append(self._find())
            return self._found[0]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A run as its spec says it, in the terms of the machine."""

    engine: str = "llamacpp"
    needs_gpu: bool = False
    starts: bool = True
    """False where the endpoints are somebody else's: then GPUs, ports and engine are not ours to judge."""
    replicas: int = 1
    gpus_each: int = 1
    python: str = ""
    model: Path | None = None
    """None where it is not on this machine."""
    model_said: str = ""
    """As the user wrote it."""
    output: Path = Path("runs")
    ports: tuple[int, ...] = ()
    """One per replica where the user named the first one."""
    inner_ports: tuple[int, ...] = ()
    """What the engine opens beside them."""
    flags: Mapping[str, str | int | float | bool] = field(default_factory=dict[str, str | int | float | bool])
    """Of the engine, by their plain names."""
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


class Subject:
    """Wanted, and this machine."""

    def __init__(
        self,
        wanted: Wanted,
        driver: Callable[[], devices.Driver | None] = devices.driver,
        engine: Callable[[str, str], interpreter.Installed | None] = interpreter.installed,
        imported: Callable[[str, str, float], interpreter.Build | None] = interpreter.build,
    ) -> None:
        self.wanted = wanted
        self.driver = Once(driver)
        self.installed = Once(lambda: engine(wanted.python, wanted.engine))
        self.build = Once(lambda: imported(wanted.python, wanted.engine, self.patience))

    @property
    def patience(self) -> float:
        """Seconds for the engine's import."""
        driver = self.driver()
        return ENGINE_PATIENCE if driver and driver.devices else ENGINE_PATIENCE_WITHOUT_GPU
