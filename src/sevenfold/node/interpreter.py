"""The engine as its own interpreter sees it: version and place, then what its import takes and what it was built for.

The engine's packages are never imported into our process. Its Python may be older than ours: the questions use the
standard library of 3.8.
"""

import sys
import time

import msgspec

from sevenfold.node.process import output

PACKAGES = {"sglang": "sglang", "vllm": "vllm", "llamacpp": "xllamacpp"}
"""What each engine is called in the package index, and imported as."""

QUICK = 5.0
"""Seconds for an interpreter that imports nothing."""

INSTALLED = """
import json, sys, importlib.metadata as meta, importlib.util as util
def version(name):
    try: return meta.version(name)
    except meta.PackageNotFoundError: return ""
spec = util.find_spec(sys.argv[1])
print(json.dumps({"python": "%d.%d.%d" % sys.version_info[:3], "prefix": sys.prefix, "version": version(sys.argv[1]),
    "place": (spec.origin or "") if spec else "", "torch": version("torch")}))
"""

BUILD = """
import json, sys, time, importlib
began, error = time.perf_counter(), ""
try: importlib.import_module(sys.argv[1])
except BaseException as bad: error = "%s: %s" % (type(bad).__name__, bad)
seconds, cuda, flags = time.perf_counter() - began, None, ""
try:
    import torch
    cuda, flags = torch.version.cuda, getattr(torch._C, "_cuda_getArchFlags", lambda: "")() or ""
except Exception: pass
print("\\n" + json.dumps({"seconds": seconds, "error": error[:300], "cuda": cuda, "architectures": flags.split()}))
"""


class Installed(msgspec.Struct, frozen=True):
    python: str
    prefix: str
    version: str
    """Empty where the engine is not installed there."""
    place: str
    torch: str = ""


class Build(msgspec.Struct, frozen=True):
    seconds: float
    """What its import took."""
    error: str = ""
    cuda: str | None = None
    """The CUDA that its torch was built with; None: built for the CPU, or no torch."""
    architectures: tuple[str, ...] = ()
    """'sm_90', 'compute_90', ..."""


def installed(python: str, engine: str) -> Installed | None:
    """None where the interpreter does not answer."""
    said = output((python or sys.executable, "-c", INSTALLED, PACKAGES.get(engine, engine)), QUICK)
    return msgspec.json.decode(said, type=Installed) if said else None


def build(python: str, engine: str, seconds: float) -> Build | None:
    """None where the import takes longer than `seconds`."""
    began = time.monotonic()
    said = output((python or sys.executable, "-c", BUILD, PACKAGES.get(engine, engine)), seconds)
    last = said.strip().rpartition("\n")[2]
    if last:
        return msgspec.json.decode(last, type=Build)
    took = time.monotonic() - began
    return Build(took, "the interpreter died of it") if took < seconds else None


def serves(driver_cuda: str, built_with: str) -> bool:
    """Whether a driver for one CUDA runs code built with another: within a major version yes
    (https://docs.nvidia.com/deploy/cuda-compatibility/)."""
    return int(built_with.partition(".")[0]) <= int(driver_cuda.partition(".")[0])
