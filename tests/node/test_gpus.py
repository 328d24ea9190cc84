import pytest

from sevenfold.errors import ConfigError
from sevenfold.node.gpus import listed, visible_gpus


@pytest.mark.parametrize(
    ("preset", "expected"),
    [("2,3", ("2", "3")), ("GPU-1a2b,GPU-3c4d", ("GPU-1a2b", "GPU-3c4d")), ("", ()), ("-1", ()), (" 5 ", ("5",))],
)
def test_a_preset_list_is_kept_as_it_is(preset: str, expected: tuple[str, ...]) -> None:
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": preset}) == expected


def test_a_gpu_named_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="names a GPU twice"):
        visible_gpus({"CUDA_VISIBLE_DEVICES": "0,0"})


def test_nvidia_smi_lists_gpus_and_their_slices() -> None:
    text = (
        "GPU 0: NVIDIA H200 (UUID: GPU-5f1c)\n"
        "  MIG 1g.18gb     Device  0: (UUID: MIG-77aa)\n"
        "GPU 1: NVIDIA H200 (UUID: GPU-9d2e)\n"
    )
    assert listed(text) == ("0", "1")
    assert listed("") == ()
