"""GPUs by name: memory, bandwidth, arithmetic and compute capability, each number with where it comes from.

It looks at no device: what this machine really has is for `doctor` to say.
"""

import difflib
import re

import msgspec

from sevenfold.errors import ConfigError

GIB = 1 << 30
MIB = 1 << 20

CONTEXT_BYTES = round(1.3 * GIB)
"""What the driver's total loses before an engine loads its first weight (CUDA context, collectives): 1.27 GiB on the
measured H200, 1.22 and 1.49 in public SGLang logs of an H100 and a B200."""


class GPU(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    capability: tuple[int, int]
    """Compute capability: (10, 0) is sm_100. B200 is sm_100, RTX PRO 6000 Blackwell sm_120: not the same kernels."""
    total_bytes: int
    """As nvidia-smi shows it."""
    free_bytes: int
    """What an engine finds free when it starts to load weights on an otherwise idle GPU."""
    bandwidth: float
    """Bytes per second of device memory, data sheet."""
    bf16: float
    """Dense operations per second with 16-bit floats (accumulated in 32 bits), data sheet."""
    fp8: float | None
    """The same with 8-bit floats; None where the GPU has none and fp8 weights are widened before use."""
    measured: bool = False
    """Whether plans for it were compared with a real server of this project."""
    source: str
    """Of the memory sizes."""

    @property
    def architecture(self) -> str:
        return f"sm_{self.capability[0]}{self.capability[1]}"

    def operations(self, quantization: str) -> float:
        """Operations per second of the matrix products of weights stored like this."""
        return self.fp8 if self.fp8 is not None and quantization == "fp8" else self.bf16


def _gpu(
    name: str, capability: tuple[int, int], mib: int, speed: tuple[float, float, float | None], source: str
) -> GPU:
    bandwidth, bf16, fp8 = speed
    return GPU(
        name=name,
        capability=capability,
        total_bytes=mib * MIB,
        free_bytes=mib * MIB - CONTEXT_BYTES,
        bandwidth=bandwidth * 1e12,
        bf16=bf16 * 1e12,
        fp8=fp8 * 1e12 if fp8 else None,
        source=source,
    )


_LISTED = "nvidia-smi totals listed in modal-labs/modal-client PR #2797; free: total less 1.3 GiB"
_SMI = "nvidia-smi total in public logs; free: total less 1.3 GiB"

_TABLE = (
    # Speed in TB/s and TFLOP/s. Data sheets state twice the dense number where they count sparsity: halved here.
    msgspec.structs.replace(
        _gpu("H200", (9, 0), 143_771, (4.8, 989.5, 1979.0), "measured: SGLang 0.5.11 found 139.13 GiB free"),
        free_bytes=round(139.13 * GIB),
        measured=True,
    ),
    msgspec.structs.replace(
        # The driver reports 7680 bits x 3996 MHz x 2 (pytorch/ao PR #4002); the data sheet rounds that to 8 TB/s.
        _gpu("B200", (10, 0), 183_359, (7.67, 2250.0, 4500.0), "a public SGLang log: 177.57 GiB free"),
        free_bytes=round(177.57 * GIB),
    ),
    msgspec.structs.replace(
        _gpu("H100", (9, 0), 81_559, (3.35, 989.5, 1979.0), "public SGLang 0.5 logs: 78.43 GiB free"),
        free_bytes=round(78.43 * GIB),
    ),
    _gpu("H100 NVL", (9, 0), 95_830, (3.9, 835.5, 1671.0), _SMI),
    _gpu("H100 PCIe", (9, 0), 81_559, (2.04, 756.5, 1513.0), _SMI),
    _gpu("A100-80GB", (8, 0), 81_920, (2.039, 312.0, None), _LISTED),
    _gpu("A100-40GB", (8, 0), 40_960, (1.555, 312.0, None), _LISTED),
    _gpu("L40S", (8, 9), 46_068, (0.864, 362.0, 733.0), _LISTED),
    _gpu("L4", (8, 9), 23_034, (0.300, 121.0, 242.0), _LISTED),
    # The workstation card; the server edition has 1.6 TB/s.
    _gpu("RTX PRO 6000 Blackwell", (12, 0), 97_887, (1.792, 503.8, 1007.6), _SMI),
    _gpu("RTX 5090", (12, 0), 32_607, (1.792, 209.5, 419.0), _SMI),
    _gpu("RTX 4090", (8, 9), 24_564, (1.008, 165.2, 330.3), _SMI),
)

GPUS: dict[str, GPU] = {gpu.name: gpu for gpu in _TABLE}


def find_gpu(name: str) -> GPU:
    """By the table's name or the driver's ('NVIDIA H100 80GB HBM3', 'b200'). ConfigError on one not known here."""
    wanted = _words(name)
    for known in sorted(GPUS, key=len, reverse=True):
        if f" {_words(known)} " in f" {wanted} ":
            return GPUS[known]
    if re.search(r"\ba100\b", wanted):
        return GPUS["A100-40GB" if "40gb" in wanted else "A100-80GB"]
    for known, gpu in GPUS.items():
        if wanted and _words(known).startswith(wanted):
            return gpu
    near = difflib.get_close_matches(name.upper(), GPUS, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(GPUS)}"
    raise ConfigError(f"unknown GPU {name!r}", hint)


def _words(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", name.lower()).strip()
