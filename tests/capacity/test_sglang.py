from typing import Any

import msgspec
import pytest

from sevenfold.capacity import sglang
from sevenfold.capacity.gpu import GIB, find_gpu
from sevenfold.capacity.model import model_shape
from sevenfold.capacity.pools import Flags, Pools
from sevenfold.errors import ConfigError
from tests.capacity.shapes import LLAMA_31_8B, QWEN3_8B, QWEN36_27B

HYBRID = model_shape(QWEN36_27B)
DENSE = model_shape(QWEN3_8B)
H200 = find_gpu("H200")
SPEC: dict[str, Any] = {
    "speculative-algorithm": "EAGLE",
    "speculative-num-steps": 3,
    "speculative-eagle-topk": 1,
    "speculative-num-draft-tokens": 4,
}
SEED: dict[str, Any] = {
    **SPEC,
    "mamba-scheduler-strategy": "extra_buffer",
    "max-mamba-cache-size": 80,
    "mamba-full-memory-ratio": 0.4,
    "mem-fraction-static": 0.9,
    "context-length": 8192,
}
SLOT = 153_944_064


def pools(flags: dict[str, Any], version: str = "0.5.11", shape=HYBRID, gpu=H200) -> Pools:
    return sglang.pools(shape, gpu, flags, version, live=2000)


def newer(flags: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("scheduler", "radix-cache") if "strategy" in name else name: v for name, v in flags.items()}


@pytest.mark.parametrize(
    ("flags", "version", "slots"),
    [
        ({"disable-radix-cache": True}, "0.5.11", 1),
        ({}, "0.5.11", 3),
        ({"mamba-scheduler-strategy": "extra_buffer"}, "0.5.11", 5),
        ({"mamba-scheduler-strategy": "extra_buffer", "disable-overlap-schedule": True}, "0.5.11", 4),
        ({}, "0.5.23", 5),  # auto picks extra_buffer
        ({"disable-overlap-schedule": True}, "0.5.23", 3),
        ({"mamba-radix-cache-strategy": "extra_buffer_lazy"}, "0.5.23", 4),
    ],
)
def test_state_slots_per_request(flags, version, slots):
    assert sglang.settings(HYBRID, H200, Flags(flags), version).slots_per_request == slots


def test_the_seeds_flags_run_16_requests_on_any_gpu():
    """And on a B200 the KV pool beside them is about 1.14 million tokens."""
    b200 = pools(SEED, gpu=find_gpu("B200"))
    assert (b200.binding.running, b200.state_slots) == (16, 80)
    assert b200.kv_tokens == pytest.approx(1.14e6, rel=0.01)
    assert b200.binding.sentence == (
        "80 state slots at 5 per request (extra_buffer prefix cache) let 16 requests run; "
        "--disable-radix-cache in place of the strategy takes 1 per request and memory then bears about 129"
    )
    assert any("27.5 GiB are set aside for the speculation of 48 requests" in note for note in b200.notes)
    assert any("--mamba-full-memory-ratio is ignored" in note for note in b200.notes)


def test_the_old_version_reserves_for_the_flag_and_the_new_one_for_what_runs():
    """0.5.11: 4 x 48 + 80 slots. 0.5.23: 4 x (16 + 1) + 80 + 1, the draft layer's weights and its 4,096 B a token."""
    rest = H200.free_bytes * 0.9 - HYBRID.weight_bytes()
    assert pools(SEED).kv_tokens == int((rest - (192 + 80) * SLOT) // 65_536)
    now = pools(newer(SEED), "0.5.23")
    rest -= HYBRID.draft_bytes() + 100 * (1 << 20)
    assert now.kv_tokens == int((rest - (68 + 81) * SLOT) // (65_536 + 4_096))
    assert now.binding.running == 16
    assert not any("lie idle;" in note for note in now.notes)


def test_without_a_size_the_ratio_splits_the_memory():
    """mamba-full-memory-ratio r: r / (1 + r) of the rest is for states."""
    rest = H200.free_bytes * 0.9 - HYBRID.weight_bytes()
    plain = {"mem-fraction-static": 0.9, "mamba-full-memory-ratio": 0.5}
    assert pools(plain).state_slots == int(rest / 3 // SLOT)
    # The newer one keeps a padding slot, and sees the vision tower's cache.
    share = (rest - 100 * (1 << 20)) / 3
    assert pools(plain, "0.5.23").state_slots == int((share - SLOT) // SLOT)
    # With speculation it solves for slots and draft states together: 1 + 4 slots of padding, 1 + 4/5 per slot.
    share = (rest - 100 * (1 << 20) - HYBRID.draft_bytes()) / 3
    assert pools({**plain, **SPEC}, "0.5.23").state_slots == int((share - 5 * SLOT) // (SLOT * 1.8))


def test_speculation_alone_lets_48_run():
    got = pools({**SPEC, "disable-radix-cache": True, "mem-fraction-static": 0.9})
    assert (got.binding.running, got.state_slots) == (48, 48)
    assert got.binding.sentence.startswith("speculation sets --max-running-requests to 48 where it is not given")


def test_a_dense_model_has_no_slots_and_its_own_ceiling():
    got = pools({"mem-fraction-static": 0.9}, shape=DENSE)
    assert (got.state_slots, got.state_bytes, got.verify_bytes) == (0, 0, 0)
    assert got.kv_tokens == int((H200.free_bytes * 0.9 - DENSE.weight_bytes()) // 147_456)
    # 512 requests per full context would be 10,008: clamped to 4,096
    assert got.binding.running == 4096
    assert "ceiling of 4096" in got.binding.sentence


def test_the_newer_version_lets_a_given_number_run_past_its_own_ceiling():
    many = {"mem-fraction-static": 0.9, "max-running-requests": 5000}
    assert pools(many, "0.5.11", DENSE).binding.running == 4096
    assert pools(many, "0.5.23", DENSE).binding.running == 5000


def test_graphs_that_do_not_reach_the_batch_are_said():
    flags: dict[str, Any] = {"disable-radix-cache": True, "mamba-ssm-dtype": "bfloat16", "mem-fraction-static": 0.9}
    flags["max-running-requests"] = 300
    assert any("--cuda-graph-max-bs 300" in note for note in pools(flags).notes)
    assert any("--cuda-graph-max-bs-decode 300" in note for note in pools(flags, "0.5.23").notes)
    assert not any("graph" in note for note in pools({**flags, "cuda-graph-max-bs": 300}).notes)


def test_tensor_parallel_shares_weights_heads_and_states():
    one = pools({"mem-fraction-static": 0.9, "max-mamba-cache-size": 80})
    two = pools({"mem-fraction-static": 0.9, "max-mamba-cache-size": 80, "tp-size": 2})
    assert two.gpus == 2
    assert two.kv_tokens > 2 * one.kv_tokens
    assert two.state_bytes == one.state_bytes // 2
    # 4 KV heads: 8 GPUs hold each head twice
    eight = pools({"mem-fraction-static": 0.9, "max-mamba-cache-size": 80, "tp-size": 8})
    assert eight.kv_bytes == eight.kv_tokens * 65_536 // 4


@pytest.mark.parametrize(
    ("flags", "version", "says"),
    [
        (SEED, "0.5.23", "does not know --mamba-scheduler-strategy: it exits with code 2"),
        (newer(SEED), "0.5.11", "does not know --mamba-radix-cache-strategy"),
        ({**SEED, "disable-radix-cache": True}, "0.5.11", "refuses to start"),
        (SPEC, "0.5.11", "needs --mamba-scheduler-strategy extra_buffer"),
        ({"mamba-scheduler-strategy": "lazy"}, "0.5.11", "unknown state cache strategy 'lazy'"),
        ({"max-mamba-cache-size": 4, "mamba-scheduler-strategy": "extra_buffer"}, "0.5.11", "let no request run"),
        ({"max-mamba-cache-size": 2000}, "0.5.11", "nothing remains for the KV cache"),
        ({"mem-fraction-static": 0.3}, "0.5.11", "nothing remains for the KV cache"),
        ({}, "latest", "is not like 0.5.11"),
        ({"mem-fraction-static": "most"}, "0.5.11", "not a number"),
        ({"max-running-requests": 1.5}, "0.5.11", "not a count"),
        ({"disable-radix-cache": "yes"}, "0.5.11", "takes no value"),
    ],
)
def test_what_would_not_start_is_refused(flags, version, says):
    with pytest.raises(ConfigError, match=says):
        pools(flags, version)


def test_a_model_without_prediction_layer_cannot_draft_for_itself():
    with pytest.raises(ConfigError, match="no prediction layer of its own"):
        pools(SPEC, shape=DENSE)
    with_draft = pools({**SPEC, "speculative-draft-model-path": "d", "mem-fraction-static": 0.9}, shape=DENSE)
    assert (with_draft.verified, with_draft.weights_bytes) == (4, DENSE.weight_bytes())


@pytest.mark.parametrize(
    ("flags", "verified"),
    [
        ({"speculative-algorithm": "NONE"}, 0),
        ({"speculative-algorithm": "NGRAM"}, 12),
        ({"speculative-algorithm": "EAGLE3", "speculative-draft-model-path": "d"}, 4),
        ({**SPEC, "speculative-num-draft-tokens": 9, "speculative-draft-model-path": "d"}, 4),  # top 1: steps + 1
        (
            {
                **SPEC,
                "speculative-eagle-topk": 4,
                "speculative-num-draft-tokens": 8,
                "speculative-draft-model-path": "d",
            },
            8,
        ),
    ],
)
def test_tokens_verified_per_step(flags, verified):
    assert sglang.settings(DENSE, H200, Flags(flags), "0.5.11").verified == verified


def test_the_default_memory_fraction():
    """0.5.11 on 143,771 MiB: 512 + 1.5 x 8192 + 2 x 256 + 128 = 13,440 MiB stay outside, a drafter takes 4 GiB more."""
    assert sglang.settings(DENSE, H200, Flags({}), "0.5.11").fraction == round((143_771 - 13_440) / 143_771, 3)
    drafted = Flags({**SPEC, "speculative-draft-model-path": "d"})
    assert sglang.settings(DENSE, H200, drafted, "0.5.11").fraction == round((143_771 - 13_440 - 4096) / 143_771, 3)
    # A vision tower of width 1152: x 0.95 x (1 - 0.1 x (1.265625 - 1))
    hybrid = sglang.settings(HYBRID, H200, Flags({}), "0.5.11").fraction
    assert hybrid == pytest.approx(round((143_771 - 13_440) / 143_771, 3) * 0.95 * 0.9734375)
    # Small GPUs: 46,068 MiB, chunks of 4,096 and graphs up to 32.
    small = sglang.settings(DENSE, find_gpu("L40S"), Flags({}), "0.5.11").fraction
    assert small == round((46_068 - 512 - 6144 - 64 - 128) / 46_068, 3)


def test_an_fp8_checkpoint_loads_without_the_holes_of_online_quantization():
    stored = model_shape({**LLAMA_31_8B, "quantization_config": {"quant_method": "fp8"}})
    assert pools({"mem-fraction-static": 0.9}, shape=stored).weights_bytes == stored.weight_bytes()
    online = pools({"mem-fraction-static": 0.9, "quantization": "fp8"}, shape=model_shape(LLAMA_31_8B))
    assert online.weights_bytes == round(1.07 * stored.weight_bytes())


def test_the_newer_version_can_leave_the_vision_tower_out():
    flags = {"mem-fraction-static": 0.9, "max-mamba-cache-size": 80}
    more = pools({**flags, "language-model-only": True}, "0.5.23").kv_bytes - pools(flags, "0.5.23").kv_bytes
    assert more == pytest.approx(2 * HYBRID.vision + 100 * (1 << 20), abs=65_536)


def test_pages_and_a_cap_round_the_kv_tokens():
    got = pools({"mem-fraction-static": 0.9, "max-total-tokens": 100_000, "page-size": 64}, shape=DENSE)
    assert got.kv_tokens == 99_968


def test_flags_may_be_spelled_with_underscores():
    assert pools({"mem_fraction_static": 0.9}) == pools({"--mem-fraction-static": 0.9})


def test_a_small_gpu_does_not_bear_the_model():
    small = msgspec.structs.replace(H200, name="small", free_bytes=40 * GIB, total_bytes=41 * GIB)
    with pytest.raises(ConfigError, match="small: -"):
        pools({"mem-fraction-static": 0.9, "max-mamba-cache-size": 8}, gpu=small)
