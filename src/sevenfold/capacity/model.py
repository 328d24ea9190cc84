"""A model's shape from its Hugging Face config.json: parameters, bytes of weights, KV bytes per token, bytes per state.

Covers decoder transformers (dense, grouped-query, mixture of experts), hybrids with gated delta net layers, a vision
tower and a multi-token-prediction layer. A missing field is named, never guessed. It knows no engine: what an engine
allocates beside these bytes is in `sglang` and `vllm`.
"""

import difflib
from collections.abc import Mapping
from typing import Any

import msgspec

from sevenfold.errors import ConfigError

QUANTIZED_BYTES = {
    "none": 2.0,  # bfloat16 and float16; engines load float32 checkpoints in 16 bits too
    "fp8": 1.0,
    "w8a8_int8": 1.0,
    "nvfp4": 0.5625,  # 4 bits and one 8-bit scale per 16 weights
    "mxfp4": 0.53125,  # 4 bits and one 8-bit scale per 32 weights
    "awq": 0.53125,  # 4 bits, a 16-bit scale and a 4-bit zero (with padding 2 bytes) per 128 weights
    "gptq": 0.53125,
}
"""Bytes per weight of the matrices of the layers. Embedding, head, norms and vision tower stay in 16 bits."""

ALIASES = {
    "modelopt": "fp8",
    "modelopt_fp8": "fp8",
    "w8a8_fp8": "fp8",
    "fbgemm_fp8": "fp8",
    "modelopt_fp4": "nvfp4",
    "awq_marlin": "awq",
    "gptq_marlin": "gptq",
    "auto": "none",
    "unquant": "none",
}
"""Names that engines and checkpoints use for the same bytes."""

KV_BYTES = {"auto": 2, "bf16": 2, "bfloat16": 2, "float16": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}
STATE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


class Attention(msgspec.Struct, frozen=True):
    """The layers that keep keys and values."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int


class LinearAttention(msgspec.Struct, frozen=True):
    """Gated delta net layers: one state per request instead of keys and values per token."""

    layers: int
    key_heads: int
    key_dim: int
    value_heads: int
    value_dim: int
    kernel: int
    dtype: str
    """What the model asks for its recurrent state: 'float32' where it says nothing."""

    @property
    def conv_dim(self) -> int:
        return self.value_heads * self.value_dim + 2 * self.key_heads * self.key_dim

    @property
    def conv_numbers(self) -> int:
        """Per layer and request; kept in 16 bits."""
        return self.conv_dim * (self.kernel - 1)

    @property
    def state_numbers(self) -> int:
        return self.value_heads * self.key_dim * self.value_dim


class Experts(msgspec.Struct, frozen=True):
    routed: int
    per_token: int
    matrices: int
    """Parameters of all routed experts of all layers."""


class ModelShape(msgspec.Struct, frozen=True, kw_only=True):
    """Counts are of parameters. Draft counts are the checkpoint's own multi-token-prediction layers."""

    model_type: str
    hidden: int
    vocab: int
    context: int
    attention: Attention
    linear: LinearAttention | None = None
    experts: Experts | None = None
    embedding: int
    head: int
    """0 where it is tied to the embedding."""
    matrices: int
    """Weights of the layers that a quantization shrinks, routed experts included."""
    small: int
    """Norms, biases, convolutions: 16 bits always."""
    vision: int = 0
    vision_hidden: int = 0
    draft_layers: int = 0
    draft_matrices: int = 0
    draft_small: int = 0
    quantization: str = "none"
    """How the checkpoint itself is stored; a key of QUANTIZED_BYTES."""

    @property
    def parameters(self) -> int:
        """What an engine loads without speculation: the multi-token-prediction layers stay out."""
        return self.embedding + self.head + self.matrices + self.small + self.vision

    @property
    def active_matrices(self) -> int:
        """Weights of the layers that one token passes through."""
        if self.experts is None:
            return self.matrices
        idle = self.experts.routed - self.experts.per_token
        return self.matrices - self.experts.matrices * idle // self.experts.routed

    @property
    def projection(self) -> int:
        """Parameters of the matrix that makes logits, tied or not."""
        return self.head or self.embedding

    def weight_bytes(self, quantization: str = "", vision: bool = True) -> int:
        """Bytes of the weights as loaded, without draft layers. `quantization` "": as the checkpoint is stored."""
        plain = 2 * (self.embedding + self.head + self.small + (self.vision if vision else 0))
        return plain + round(self.matrices * self.matrix_bytes(quantization))

    def draft_bytes(self, quantization: str = "") -> int:
        """Bytes of the draft layers once embedding and head are shared with the model."""
        return 2 * self.draft_small + round(self.draft_matrices * self.matrix_bytes(quantization))

    def matrix_bytes(self, quantization: str = "") -> float:
        return QUANTIZED_BYTES[quantization_name(quantization) if quantization else self.quantization]

    def kv_bytes_per_token(self, dtype: str = "auto") -> int:
        """2 (key and value) x layers with attention x KV heads x head dim x bytes."""
        return self.attention.layers * self._kv_bytes_per_layer(dtype)

    def draft_kv_bytes_per_token(self, dtype: str = "auto") -> int:
        return self.draft_layers * self._kv_bytes_per_layer(dtype)

    def state_bytes(self, dtype: str = "") -> int:
        """Bytes of one state slot, all layers: convolution window in 16 bits + recurrent state. 0 without such layers.
        `dtype` "": as the model asks.

        Source: SGLang 0.5.11 configs/mamba_utils.py `mamba_cache_per_req`."""
        if self.linear is None:
            return 0
        bytes_each = _named(STATE_BYTES, dtype or self.linear.dtype, "state dtype")
        return self.linear.layers * (2 * self.linear.conv_numbers + bytes_each * self.linear.state_numbers)

    def _kv_bytes_per_layer(self, dtype: str) -> int:
        return 2 * self.attention.kv_heads * self.attention.head_dim * _named(KV_BYTES, dtype, "KV cache dtype")


def quantization_name(name: str) -> str:
    """The key of QUANTIZED_BYTES that an engine's or a checkpoint's name means. ConfigError on one not known here."""
    name = name.lower()
    name = ALIASES.get(name, name)
    _named(QUANTIZED_BYTES, name, "quantization")
    return name


def model_shape(config: Mapping[str, Any], where: str = "config.json") -> ModelShape:
    """The shape that a config.json (already parsed) describes. ConfigError naming the field that is missing or odd."""
    text = _Fields(config.get("text_config") or config, where, "text_config." if config.get("text_config") else "")
    if text.optional("kv_lora_rank"):
        raise ConfigError(f"{where}: {text.prefix}kv_lora_rank: latent attention (MLA) cannot be planned yet")
    hidden, vocab = text.whole("hidden_size"), text.whole("vocab_size")
    attention, linear = _attention(text), _linear(text)
    hybrid = linear is not None
    feed, experts = _feed_forward(text)
    attention_layer = _attention_matrices(text, attention, hybrid)
    matrices = attention.layers * attention_layer + sum(feed)
    small = _small(text, attention, linear) + hidden
    if linear is not None:
        matrices += linear.layers * _linear_matrices(hidden, linear)
    # Qwen3.5 names its prediction layers one way, GLM and DeepSeek another.
    drafts = text.whole("mtp_num_hidden_layers", text.whole("num_nextn_predict_layers", 0))
    vision = config.get("vision_config")
    tied = config.get("tie_word_embeddings", text.optional("tie_word_embeddings", False))
    return ModelShape(
        model_type=str(config.get("model_type", "")),
        hidden=hidden,
        vocab=vocab,
        context=text.whole("max_position_embeddings", 0),
        attention=attention,
        linear=linear,
        experts=experts,
        embedding=vocab * hidden,
        head=0 if tied else vocab * hidden,
        matrices=matrices,
        small=small,
        vision=_vision(_Fields(vision, where, "vision_config.")) if vision else 0,
        vision_hidden=_Fields(vision, where, "vision_config.").whole("hidden_size") if vision else 0,
        draft_layers=drafts,
        # One layer like the model's last, and a projection of [embedding, hidden state] to the hidden size.
        draft_matrices=drafts * (attention_layer + feed[-1]) + (2 * hidden * hidden if drafts else 0),
        draft_small=drafts * (2 * hidden + 2 * attention.head_dim) + (3 * hidden if drafts else 0),
        quantization=_stored(config, where),
    )


class _Fields:
    """Reads a table of config.json and names the field that is missing."""

    def __init__(self, table: Mapping[str, Any], where: str, prefix: str) -> None:
        self.table, self.where, self.prefix = table, where, prefix

    def optional(self, name: str, default: Any = None) -> Any:
        value = self.table.get(name)
        return default if value is None else value

    def whole(self, name: str, default: int | None = None) -> int:
        value = self.optional(name, default)
        if value is None:
            raise ConfigError(f"{self.where}: {self.prefix}{name} is missing", "is this the model's own config.json?")
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ConfigError(f"{self.where}: {self.prefix}{name} = {value!r} is not a count")
        return value


def _layer_types(text: _Fields) -> list[str]:
    layers = text.whole("num_hidden_layers")
    types: list[str] = text.optional("layer_types") or []
    if not types:
        every = text.whole("full_attention_interval", 1) if text.optional("linear_num_value_heads") else 1
        types = ["full_attention" if (i + 1) % every == 0 else "linear_attention" for i in range(layers)]
    if len(types) != layers:
        raise ConfigError(f"{text.where}: {text.prefix}layer_types has {len(types)} entries for {layers} layers")
    for kind in types:
        if kind not in ("full_attention", "sliding_attention", "chunked_attention", "linear_attention"):
            raise ConfigError(f"{text.where}: {text.prefix}layer_types: {kind!r} layers cannot be planned yet")
    return types


def _attention(text: _Fields) -> Attention:
    heads = text.whole("num_attention_heads")
    layers = sum(kind != "linear_attention" for kind in _layer_types(text))
    head_dim = text.whole("head_dim", text.whole("hidden_size") // max(heads, 1))
    return Attention(layers, heads, text.whole("num_key_value_heads", heads), head_dim)


def _linear(text: _Fields) -> LinearAttention | None:
    layers = _layer_types(text).count("linear_attention")
    if not layers:
        return None
    return LinearAttention(
        layers=layers,
        key_heads=text.whole("linear_num_key_heads"),
        key_dim=text.whole("linear_key_head_dim"),
        value_heads=text.whole("linear_num_value_heads"),
        value_dim=text.whole("linear_value_head_dim"),
        kernel=text.whole("linear_conv_kernel_dim"),
        dtype=str(text.optional("mamba_ssm_dtype", "float32")),
    )


def _attention_matrices(text: _Fields, attention: Attention, hybrid: bool) -> int:
    """Query (twice where the output is gated), key, value and output projection of one layer.

    Qwen3-Next and Qwen3.5 gate always; the older of the two does not say so in its config."""
    hidden, width = text.whole("hidden_size"), attention.heads * attention.head_dim
    queries = 2 if text.optional("attn_output_gate", hybrid) else 1
    return hidden * ((queries + 1) * width + 2 * attention.kv_heads * attention.head_dim)


def _linear_matrices(hidden: int, linear: LinearAttention) -> int:
    """One gated delta net layer: q, k, v in one projection, gate z, output, and two numbers per value head."""
    values = linear.value_heads * linear.value_dim
    return hidden * (linear.conv_dim + 2 * values + 2 * linear.value_heads)


def _small(text: _Fields, attention: Attention, linear: LinearAttention | None) -> int:
    """Norms, biases and convolutions of all layers."""
    hidden, kind = text.whole("hidden_size"), str(text.optional("model_type", ""))
    qkv = (attention.heads + 2 * attention.kv_heads) * attention.head_dim
    bias = qkv if text.optional("attention_bias", kind.startswith("qwen2")) else 0
    # Qwen3 and its children normalise queries and keys per head.
    norms = 2 * attention.head_dim if kind.startswith("qwen3") else 0
    total = (attention.layers + (linear.layers if linear else 0)) * 2 * hidden + attention.layers * (bias + norms)
    if linear is not None:
        each = linear.conv_dim * linear.kernel + 2 * linear.value_heads + linear.value_dim
        total += linear.layers * each
    return total


def _feed_forward(text: _Fields) -> tuple[list[int], Experts | None]:
    """Matrix parameters of each layer's feed-forward part, and the routed experts among them."""
    hidden, layers = text.whole("hidden_size"), text.whole("num_hidden_layers")
    routed = text.whole("num_experts", text.whole("num_local_experts", text.whole("n_routed_experts", 0)))
    if not routed:
        return [3 * hidden * text.whole("intermediate_size")] * layers, None
    width = text.whole("moe_intermediate_size", text.optional("intermediate_size"))
    shared = text.whole("shared_expert_intermediate_size", 0)
    shared += text.whole("n_shared_experts", 0) * width
    experts = routed * 3 * hidden * width
    # A shared expert of Qwen comes with a gate of one number per hidden unit.
    sparse = experts + hidden * routed + 3 * hidden * shared + (hidden if shared else 0)
    plain = set(text.optional("mlp_only_layers", [])) | set(range(text.whole("first_k_dense_replace", 0)))
    step = max(text.whole("decoder_sparse_step", 1), 1)
    is_sparse = [i not in plain and (i + 1) % step == 0 for i in range(layers)]
    dense = 0 if all(is_sparse) else 3 * hidden * text.whole("intermediate_size")
    feed = [sparse if yes else dense for yes in is_sparse]
    return feed, Experts(routed, text.whole("num_experts_per_tok"), experts * sum(is_sparse))


def _vision(fields: _Fields) -> int:
    """A vision transformer: patches, positions, blocks with biases, and the merger where its width is known."""
    hidden, inner = fields.whole("hidden_size"), fields.whole("intermediate_size")
    depth = fields.whole("depth", fields.optional("num_hidden_layers"))
    block = 4 * hidden * hidden + 2 * hidden * inner + 9 * hidden + inner
    patch = fields.whole("patch_size") ** 2 * fields.whole("temporal_patch_size", 1) * fields.whole("in_channels", 3)
    total = depth * block + patch * hidden + hidden + fields.whole("num_position_embeddings", 0) * hidden
    out, merge = fields.optional("out_hidden_size"), fields.whole("spatial_merge_size", 1)
    if isinstance(out, int):
        merged = hidden * merge * merge
        total += merged * merged + merged + merged * out + out + 2 * hidden
    return total


def _stored(config: Mapping[str, Any], where: str) -> str:
    table: Mapping[str, Any] = config.get("quantization_config") or {}
    method = str(table.get("quant_method", "none"))
    if method in ("compressed-tensors", "modelopt"):
        # Both hold several formats; the bits of the weights tell which.
        method = "fp8" if "fp8" in str(table).lower() or "'num_bits': 8" in str(table) else "nvfp4"
    try:
        return quantization_name(method)
    except ConfigError as error:
        raise ConfigError(f"{where}: quantization_config.quant_method: {error.message}", error.remedy) from None


def _named(table: Mapping[str, Any], name: str, what: str) -> Any:
    if name in table:
        return table[name]
    near = difflib.get_close_matches(name, table, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(table))}"
    raise ConfigError(f"unknown {what} {name!r}", hint)
