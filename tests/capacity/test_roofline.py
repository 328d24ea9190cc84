import math

import pytest

from sevenfold.capacity.gpu import find_gpu
from sevenfold.capacity.model import model_shape
from sevenfold.capacity.roofline import EFFICIENCY, Lengths, Precision, prefill_seconds, rates, step_seconds
from tests.capacity.shapes import QWEN3_8B, QWEN3_30B_A3B, QWEN36_27B

H200 = (find_gpu("H200"), 1)
BF16 = Precision()


def test_live_tokens_of_equal_and_of_spread_lengths():
    assert Lengths(prompt=180, output=2000).live == 180 + 1000
    assert Lengths(prompt=180, output=2000, spread=0.8).live == 180 + 1000 * math.exp(0.64)


def test_one_request_of_a_dense_model_is_bound_by_reading_its_weights():
    shape = model_shape(QWEN3_8B)
    # 2 bytes x (6,945,767,424 + 622,329,856 of the head) + 1,000 live tokens x 147,456, over 4.8 TB/s
    read = 2 * (36 * 192_937_984 + 622_329_856) + 1000 * 147_456
    assert step_seconds(shape, H200, BF16, (1, 0), 1000) == pytest.approx(read / 4.8e12 / EFFICIENCY)


def test_prefill_is_bound_by_arithmetic():
    shape = model_shape(QWEN3_8B)
    assert prefill_seconds(shape, H200, BF16) == pytest.approx(2 * 36 * 192_937_984 / 989.5e12 / EFFICIENCY)
    assert prefill_seconds(shape, H200, Precision("fp8")) == pytest.approx(prefill_seconds(shape, H200, BF16) / 2)


def test_states_are_read_and_written_and_once_more_per_verified_token():
    shape = model_shape(QWEN36_27B)
    plain = step_seconds(shape, H200, BF16, (16, 0), 1000) - step_seconds(
        shape, H200, Precision(state="bfloat16"), (16, 0), 1000
    )
    assert plain == pytest.approx(16 * 2 * (153_944_064 - 78_446_592) / 4.8e12 / EFFICIENCY)
    verified = step_seconds(shape, H200, BF16, (16, 4), 1000) - step_seconds(
        shape, H200, Precision(state="bfloat16"), (16, 4), 1000
    )
    assert verified == pytest.approx(plain * 5 / 2)


def test_a_step_of_one_token_reads_only_the_experts_it_chose():
    shape = model_shape(QWEN3_30B_A3B)
    one = step_seconds(shape, H200, BF16, (1, 0), 0)
    assert one == pytest.approx(2 * (shape.active_matrices + shape.projection) / 4.8e12 / EFFICIENCY)
    many = step_seconds(shape, H200, BF16, (200, 0), 0)
    assert many == pytest.approx(2 * (shape.matrices + shape.projection) / 4.8e12 / EFFICIENCY, rel=0.001)


def test_two_gpus_halve_the_step():
    shape = model_shape(QWEN36_27B)
    two = (H200[0], 2)
    assert step_seconds(shape, two, BF16, (64, 4), 1000) == pytest.approx(
        step_seconds(shape, H200, BF16, (64, 4), 1000) / 2
    )


def test_a_step_never_yields_more_tokens_than_it_verifies():
    shape = model_shape(QWEN36_27B)
    four, more = (rates(shape, H200, BF16, (16, 4), Lengths(512, 512, accepted=a)) for a in (4.0, 9.0))
    assert four == more


def test_end_to_end_is_prefill_and_decode_one_after_the_other():
    speed = rates(model_shape(QWEN36_27B), H200, BF16, (64, 0), Lengths(1000, 500))
    assert 500 / speed.end_to_end == pytest.approx(1000 / speed.prefill + 500 / speed.decode)
