from copy import deepcopy

import pytest

from sevenfold.capacity.model import model_shape, quantization_name
from sevenfold.errors import ConfigError
from tests.capacity.shapes import LLAMA_31_8B, QWEN3_8B, QWEN3_30B_A3B, QWEN36_27B


def test_qwen3_8b_by_hand():
    shape = model_shape(QWEN3_8B)
    # attention  4096 x (2 x 32 x 128 + 2 x 8 x 128)  = 4096 x 10,240  =  41,943,040
    # feed       3 x 4096 x 12,288                                     = 150,994,944
    # norms      2 x 4096 + 2 x 128 per head                           =       8,448
    # 36 layers  36 x 192,946,432 = 6,946,071,552; final norm 4,096
    # embedding and head  2 x 151,936 x 4096 = 1,244,659,712
    assert shape.parameters == 6_946_071_552 + 4_096 + 1_244_659_712 == 8_190_735_360
    assert shape.weight_bytes() == 16_381_470_720
    # fp8: 36 x 192,937,984 weights of the layers in one byte, embedding, head and norms in two
    assert shape.weight_bytes("fp8") == 36 * 192_937_984 + 2 * (1_244_659_712 + 36 * 8_448 + 4_096)
    # 36 layers x 2 x 8 x 128 x 2 bytes
    assert shape.kv_bytes_per_token() == 147_456
    assert shape.kv_bytes_per_token("fp8_e5m2") == 73_728
    assert shape.state_bytes() == 0
    assert shape.active_matrices == shape.matrices


def test_qwen3_30b_a3b_by_hand():
    shape = model_shape(QWEN3_30B_A3B)
    # attention  2048 x (2 x 32 x 128 + 2 x 4 x 128) = 2048 x 9,216 =  18,874,368
    # router     2048 x 128                                         =     262,144
    # experts    128 x 3 x 2048 x 768                               = 603,979,776
    # norms      2 x 2048 + 2 x 128                                 =       4,352
    # 48 x 623,120,640 + 2048 + 2 x 151,936 x 2048
    assert shape.parameters == 48 * 623_120_640 + 2_048 + 622_329_856 == 30_532_122_624
    assert shape.weight_bytes() == 61_064_245_248
    # One token passes 8 of the 128 experts: 48 x (18,874,368 + 262,144 + 8 x 4,718,592)
    assert shape.active_matrices == 48 * 56_885_248
    # 48 layers x 2 x 4 x 128 x 2 bytes
    assert shape.kv_bytes_per_token() == 98_304


def test_llama_31_8b_by_hand():
    shape = model_shape(LLAMA_31_8B)
    # head dim 4096 / 32 = 128
    # attention 4096 x (2 x 4096 + 2 x 1024) = 41,943,040; feed 3 x 4096 x 14,336 = 176,160,768
    # 32 x (41,943,040 + 176,160,768 + 8,192) + 4,096 + 2 x 128,256 x 4096
    assert shape.parameters == 32 * 218_112_000 + 4_096 + 1_050_673_152 == 8_030_261_248
    assert shape.weight_bytes() == 16_060_522_496
    # 32 layers x 2 x 8 x 128 x 2 bytes
    assert shape.kv_bytes_per_token() == 131_072


def test_qwen36_27b_by_hand():
    shape = model_shape(QWEN36_27B)
    # full attention   5120 x (3 x 24 x 256 + 2 x 4 x 256)            = 5120 x 20,480 = 104,857,600  (x 16; q is gated)
    # gated delta net  conv dim 48 x 128 + 2 x 16 x 128 = 10,240
    #                  5120 x (10,240 + 2 x 6,144 + 2 x 48)           = 5120 x 22,624 = 115,834,880  (x 48)
    # feed             3 x 5120 x 17,408                              =                 267,386,880  (x 64)
    assert shape.matrices == 16 * 104_857_600 + 48 * 115_834_880 + 64 * 267_386_880 == 24_350_556_160
    # norms 64 x 10,240 + 5,120; q and k norms 16 x 512; convolution 10,240 x 4, 2 x 48 per head, norm 128: 48 x 41,184
    assert shape.small == 655_360 + 5_120 + 8_192 + 48 * 41_184
    assert shape.embedding == shape.head == 248_320 * 5_120
    # vision: 27 x (4 x 1152^2 + 2 x 1152 x 4304 + 9 x 1152 + 4304) + patches 1,536 x 1152 + 1152 + 2304 x 1152
    #         + merger 4608^2 + 4608 + 4608 x 5120 + 5120 + 2 x 1152
    assert shape.vision == 27 * 15_239_504 + 1_769_472 + 1_152 + 2_654_208 + 44_838_656
    # prediction layer: 2 x 5120^2 + one full attention layer + feed
    assert shape.draft_matrices == 52_428_800 + 104_857_600 + 267_386_880
    # The published checkpoint is 55.56 GB with everything in it.
    assert shape.weight_bytes() + shape.draft_bytes() == pytest.approx(55.56e9, rel=1e-3)
    # 16 layers x 2 x 4 x 256 x 2 bytes; the prediction layer keeps its own
    assert shape.kv_bytes_per_token() == 65_536
    assert shape.draft_kv_bytes_per_token() == 4_096
    # 48 x (10,240 x 3 x 2 bytes + 48 x 128 x 128 x 4 bytes)
    assert shape.state_bytes() == 48 * (61_440 + 3_145_728) == 153_944_064
    assert shape.state_bytes("bfloat16") == 48 * (61_440 + 1_572_864) == 78_446_592


def test_a_missing_field_is_named():
    config = deepcopy(QWEN36_27B)
    del config["text_config"]["linear_num_value_heads"]
    with pytest.raises(ConfigError, match=r"config\.json: text_config\.linear_num_value_heads is missing"):
        model_shape(config)


def test_a_field_of_the_wrong_kind_is_named():
    with pytest.raises(ConfigError, match="hidden_size = '4096' is not a count"):
        model_shape({**QWEN3_8B, "hidden_size": "4096"})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kv_lora_rank": 512}, "latent attention"),
        ({"layer_types": ["mamba"] * 36}, "'mamba' layers cannot be planned"),
        ({"layer_types": ["full_attention"]}, "1 entries for 36 layers"),
        ({"quantization_config": {"quant_method": "aqlm"}}, "quantization_config.quant_method: unknown quantization"),
    ],
)
def test_what_cannot_be_planned_is_refused(change, says):
    with pytest.raises(ConfigError, match=says):
        model_shape({**QWEN3_8B, **change})


def test_a_tied_head_is_counted_once():
    shape = model_shape({**QWEN3_8B, "tie_word_embeddings": True})
    assert (shape.head, shape.projection) == (0, shape.embedding)


@pytest.mark.parametrize(
    ("stored", "name"),
    [
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 8}}}}, "fp8"),
        ({"quant_method": "awq", "bits": 4}, "awq"),
    ],
)
def test_the_checkpoints_own_quantization_is_read(stored, name):
    assert model_shape({**QWEN3_8B, "quantization_config": stored}).quantization == name


def test_an_unknown_quantization_gets_the_nearest_name():
    with pytest.raises(ConfigError, match="did you mean fp8"):
        quantization_name("fp88")
    with pytest.raises(ConfigError, match="known: awq"):
        quantization_name("zzz")


def test_layer_types_follow_from_the_interval_where_they_are_not_listed():
    config = deepcopy(QWEN36_27B)
    del config["text_config"]["layer_types"]
    assert model_shape(config) == model_shape(QWEN36_27B)


def test_dense_layers_among_sparse_ones_and_shared_experts():
    first = model_shape({**QWEN3_30B_A3B, "mlp_only_layers": [0], "shared_expert_intermediate_size": 1024})
    # layer 0 dense: 3 x 2048 x 6144; 47 with shared expert 3 x 2048 x 1024 and its gate of 2048
    feed = 3 * 2048 * 6144 + 47 * (603_979_776 + 262_144 + 6_291_456 + 2_048)
    assert first.matrices == 48 * 18_874_368 + feed


def test_a_vision_tower_without_a_known_merger():
    vision = {"num_hidden_layers": 2, "hidden_size": 8, "intermediate_size": 16, "patch_size": 2}
    # 2 x (4 x 64 + 2 x 128 + 72 + 16) + 4 x 3 x 8 + 8
    assert model_shape({**QWEN3_8B, "vision_config": vision}).vision == 2 * 600 + 104
