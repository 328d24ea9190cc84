"""Whether a model folder is whole, told from names, sizes and headers: no weight is read.

A safetensors file is: 8 bytes little-endian length n, n bytes of JSON header, the tensors at the offsets it names
(https://github.com/huggingface/safetensors#format).
"""

import struct
from pathlib import Path
from typing import Any, Literal

import msgspec

from sevenfold.errors import NodeError
from sevenfold.types import JSON, is_object

DefectKind = Literal[
    "git_lfs_pointer",
    "missing",
    "empty",
    "header_longer_than_file",
    "header_not_json",
    "data_shorter_than_header_says",
    "index_not_json",
    "no_weights",
    "no_config",
    "pickle",
    "custom_code",
]

LFS = b"version https://git-lfs.github.com/spec/"
INDEX = "model.safetensors.index.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
"""What runs code when it is loaded."""


HAZARDS = frozenset({"pickle", "custom_code"})
"""What runs code when it is loaded: a model can be whole all the same."""
LONGEST_HEADER = 100_000_000
"""Bytes; the format's own limit."""


class Defect(msgspec.Struct, frozen=True):
    file: str
    kind: DefectKind
    detail: str = ""


def defects(folder: Path) -> tuple[Defect, ...]:
    """Everything wrong with a Hugging Face model folder, in one report, in the order of the file names."""
    found: list[Defect] = []
    if not (folder / "config.json").is_file():
        found.append(Defect("config.json", "no_config"))
    names = _shards(folder, found)
    for name in sorted(names):
        defect = _of_file(folder / name)
        if defect:
            found.append(defect)
    return (*found, *_hazards(folder, bool(names)))


def require_whole(folder: Path) -> None:
    """NodeError that names every defect but the hazards."""
    broken = [defect for defect in defects(folder) if defect.kind not in HAZARDS]
    if broken:
        names = ", ".join(f"{defect.file} ({defect.kind})" for defect in broken)
        raise NodeError(f"{folder} is not whole: {names}", "fetch these files again")


def _shards(folder: Path, found: list[Defect]) -> set[str]:
    """Names that the index promises, or what lies there when there is no index."""
    here = {path.name for path in folder.glob("*.safetensors")}
    index = folder / INDEX
    if not index.is_file():
        return here
    promised = _object(index.read_bytes())
    weights = promised.get("weight_map") if promised else None
    if not is_object(weights):
        found.append(Defect(INDEX, "index_not_json", "no weight_map"))
        return here
    return {str(name) for name in weights.values()}


def _of_file(path: Path) -> Defect | None:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(8)
            if head + file.read(len(LFS) - 8) == LFS:
                return Defect(path.name, "git_lfs_pointer", "git lfs pull fetches the weights")
            if len(head) < 8:
                return Defect(path.name, "empty", f"{size} bytes")
            (length,) = struct.unpack("<Q", head)
            if 8 + length > size or length > LONGEST_HEADER:
                return Defect(path.name, "header_longer_than_file", f"header of {length} bytes in a file of {size}")
            file.seek(8)
            return _of_header(path.name, file.read(length), size - 8 - length)
    except FileNotFoundError:
        return Defect(path.name, "missing", "a link that leads nowhere" if path.is_symlink() else "")


def _of_header(name: str, header: bytes, data: int) -> Defect | None:
    tensors = _object(header)
    if tensors is None:
        return Defect(name, "header_not_json")
    try:
        ends = [int(entry["data_offsets"][1]) for key, entry in tensors.items() if key != "__metadata__"]
    except (KeyError, TypeError, ValueError, IndexError):
        return Defect(name, "header_not_json", "no data_offsets")
    if max(ends, default=0) > data:
        return Defect(name, "data_shorter_than_header_says", f"{max(ends)} bytes promised, {data} there")
    return None


def _hazards(folder: Path, has_safetensors: bool) -> tuple[Defect, ...]:
    """Weights that run code when loaded, and code that the model's config would load."""
    found: list[Defect] = []
    pickles = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern))
    if not has_safetensors:
        found += [Defect(name, "pickle", "convert it to safetensors") for name in pickles]
        if not pickles:
            found.append(Defect(INDEX, "no_weights", "neither safetensors nor an index"))
    config = _object((folder / "config.json").read_bytes()) if (folder / "config.json").is_file() else None
    if config and "auto_map" in config:
        code = ", ".join(sorted(path.name for path in folder.glob("*.py"))) or "files on the hub"
        found.append(Defect("config.json", "custom_code", f"auto_map loads {code}"))
    return tuple(found)


def _object(content: bytes) -> JSON | None:
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
