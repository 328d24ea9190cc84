import pytest

from sevenfold.errors import ConfigError
from sevenfold.node.gpus import chosen, visible_gpus


@pytest.mark.parametrize(
    ("preset", "expected"),
    [("2,3", ("2", "3")), ("GPU-1a2b,GPU-3c4d", ("GPU-1a2b", "GPU-3c4d")), ("", ()), ("-1", ()), (" 5 ", ("5",))],
)
def test_a_preset_list_is_kept_as_it_is(preset: str, expected: tuple[str, ...]) -> None:
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": preset}) == expected


def test_a_gpu_named_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="names a GPU twice: 0"):
        visible_gpus({"CUDA_VISIBLE_DEVICES": "0,0"})


def test_without_a_list_all_are_ours() -> None:
    assert chosen(None, lambda: ("0", "1")) == ("0", "1")


@pytest.mark.parametrize("preset", ["", "-1", "NoDevFiles"])
def test_no_gpu_visible_is_an_error_where_one_is_needed(preset: str) -> None:
    with pytest.raises(ConfigError, match=f"no GPU visible: CUDA_VISIBLE_DEVICES={preset}"):
        visible_gpus({"CUDA_VISIBLE_DEVICES": preset}, needed=True)
