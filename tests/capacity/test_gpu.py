import pytest

from sevenfold.capacity.gpu import GIB, GPUS, find_gpu
from sevenfold.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("b200", "B200"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("a100", "A100-80GB"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell"),
        ("rtx pro 6000", "RTX PRO 6000 Blackwell"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
    ],
)
def test_the_drivers_names_are_found(name, known):
    assert find_gpu(name).name == known


def test_the_two_blackwells_are_not_the_same_architecture():
    assert find_gpu("B200").architecture == "sm_100"
    assert find_gpu("RTX PRO 6000").architecture == "sm_120"


def test_only_the_h200_was_measured():
    assert [gpu.name for gpu in GPUS.values() if gpu.measured] == ["H200"]
    assert find_gpu("H200").free_bytes / GIB == pytest.approx(139.13, abs=0.001)


def test_less_is_free_than_there_is():
    for gpu in GPUS.values():
        assert 0.9 * gpu.total_bytes < gpu.free_bytes < gpu.total_bytes
        assert gpu.source


def test_fp8_runs_at_16_bit_speed_where_the_gpu_has_none():
    assert find_gpu("A100").operations("fp8") == find_gpu("A100").bf16
    assert find_gpu("H200").operations("fp8") == find_gpu("H200").fp8
    assert find_gpu("H200").operations("awq") == find_gpu("H200").bf16


@pytest.mark.parametrize(("name", "hint"), [("B2000", "did you mean B200"), ("", "known: H200"), ("MI300X", "known")])
def test_an_unknown_gpu_is_refused(name, hint):
    with pytest.raises(ConfigError, match=hint):
        find_gpu(name)
