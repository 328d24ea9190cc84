import msgspec
import pytest

from sevenfold.capacity import vllm
from sevenfold.capacity.gpu import GIB, find_gpu
from sevenfold.capacity.model import model_shape
from sevenfold.errors import ConfigError
from tests.capacity.shapes import QWEN3_8B, QWEN36_27B

H200 = find_gpu("H200")
DENSE = model_shape(QWEN3_8B)
HYBRID = model_shape(QWEN36_27B)


def test_a_dense_model():
    got = vllm.pools(DENSE, H200, {"gpu-memory-utilization": 0.8}, live=2000)
    rest = H200.total_bytes * 0.8 - DENSE.weight_bytes() - 3 * GIB
    assert got.kv_tokens == int(rest // 147_456) // 16 * 16
    assert got.binding.sentence == "--max-num-seqs 1024 binds; raise it"
    assert got.state_slots == 0


def test_states_limit_a_hybrid_model():
    got = vllm.pools(HYBRID, H200, {"mamba-ssm-cache-dtype": "auto"}, live=2000)
    rest = H200.total_bytes * 0.9 - HYBRID.weight_bytes() - 3 * GIB
    assert got.binding.running == got.state_slots == int(rest // (153_944_064 + 2000 * 65_536))
    assert "states of 154 MB and 2,000 live tokens" in got.binding.sentence


def test_each_draft_keeps_a_state():
    config = '{"method": "mtp", "num_speculative_tokens": 3}'
    got = vllm.pools(HYBRID, H200, {"max-num-seqs": 32, "speculative-config": config}, live=2000)
    assert (got.binding.running, got.state_slots, got.verified) == (32, 128, 4)
    assert got.weights_bytes == HYBRID.weight_bytes() + HYBRID.draft_bytes()


def test_small_gpus_get_fewer_sequences():
    assert vllm.pools(DENSE, find_gpu("L40S"), {}, live=100).binding.running == 256


@pytest.mark.parametrize("config", ["3", "mtp", '{"num_speculative_tokens": "x"}'])
def test_a_speculative_config_that_is_none(config):
    with pytest.raises(ConfigError, match="not a JSON object"):
        vllm.pools(HYBRID, H200, {"speculative-config": config}, live=2000)


def test_a_model_too_large_is_refused():
    small = msgspec.structs.replace(H200, total_bytes=40 * GIB)
    with pytest.raises(ConfigError, match="no memory for the cache blocks"):
        vllm.pools(HYBRID, small, {}, live=2000)
