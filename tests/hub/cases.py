"""A tiny model of every family that can be pruned, built from its config alone: two layers, eight experts."""

from __future__ import annotations

import copy
import functools
from typing import Any

import torch
import transformers
from torch import Tensor, nn

EXPERTS = 8
ROUTERS = tuple(
    f"{name}.weight" for name in ("gate", "gate.wg", "router", "router.gate", "router.layer", "router.classifier")
)
"""What the router's weights are called in memory."""
_SIZES: dict[str, Any] = {
    "vocab_size": 48,
    "hidden_size": 16,
    "intermediate_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "initializer_range": 0.3,
}
_LOCAL = {"num_local_experts": EXPERTS, "num_experts_per_tok": 2}
_PLAIN = {"num_experts": EXPERTS, "num_experts_per_tok": 2}
_ROUTED = {"n_routed_experts": EXPERTS, "num_experts_per_tok": 2, "n_shared_experts": 1, "first_k_dense_replace": 1}
_GROUPS = {"n_group": 2, "topk_group": 1}
_LATENT = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8}
_SMALL = {"moe_intermediate_size": 12}
_LINEAR = dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim"), 8) | {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "layer_types": ["linear_attention", "full_attention"],
    "shared_expert_intermediate_size": 8,
}
_JAMBA = {
    "mamba_d_state": 4,
    "mamba_dt_rank": 4,
    "attn_layer_period": 2,
    "attn_layer_offset": 1,
    "expert_layer_period": 1,
    "expert_layer_offset": 0,
}
_LFM2 = {"num_dense_layers": 1, "layer_types": ["conv", "full_attention"], "conv_L_cache": 3}
_ERNIE = {
    "moe_num_experts": EXPERTS,
    "moe_k": 2,
    "moe_num_shared_experts": 1,
    "moe_layer_start_index": 1,
    "moe_layer_end_index": -1,
}
_HYBRID = {
    "shared_intermediate_size": 8,
    "layer_types": ["mamba", "attention"],
    "mamba_n_heads": 4,
    "mamba_d_head": 8,
    "mamba_d_state": 4,
    "mamba_n_groups": 1,
    "mamba_chunk_size": 8,
}
_NEMOTRON = {
    "num_hidden_layers": 3,
    "layers_block_type": ["mamba", "moe", "full_attention"],
    "mamba_num_heads": 4,
    "mamba_head_dim": 8,
    "ssm_state_size": 4,
    "n_groups": 1,
    "chunk_size": 8,
    "moe_shared_expert_intermediate_size": 8,
}
_YARN = {"rope_type": "default", "rope_theta": 10000.0}
_DBRX: dict[str, Any] = {
    "d_model": 16,
    "n_heads": 2,
    "n_layers": 2,
    "max_seq_len": 64,
    "vocab_size": 48,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 1e4},
    "ffn_config": {
        "hidden_size": 16,
        "ffn_hidden_size": 12,
        "moe_num_experts": EXPERTS,
        "moe_top_k": 2,
        "ffn_act_fn": {"name": "silu"},
    },
}
_SWITCH: dict[str, Any] = {
    "vocab_size": 48,
    "d_model": 16,
    "d_kv": 8,
    "d_ff": 12,
    "num_layers": 2,
    "num_sparse_encoder_layers": 1,
    "num_decoder_layers": 2,
    "num_sparse_decoder_layers": 1,
    "num_heads": 2,
    "num_experts": EXPERTS,
    "expert_capacity": 3,
    "router_bias": True,
    "dropout_rate": 0.0,
    "initializer_factor": 1.0,
    "decoder_start_token_id": 0,
}

_LLAMA4 = {"num_local_experts": EXPERTS, "num_experts_per_tok": 1, "intermediate_size_mlp": 12}
_VISION = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "vision_output_dim": 16,
    "image_size": 4,
    "patch_size": 2,
    "projector_input_dim": 16,
    "projector_output_dim": 16,
}
_THREE_AXES = _YARN | {"mrope_section": [1, 1, 2], "partial_rotary_factor": 1.0}
_TINY_VISION = {
    "depth": 1,
    "hidden_size": 16,
    "num_heads": 2,
    "intermediate_size": 16,
    "out_hidden_size": 16,
    "patch_size": 2,
}
_QWEN_VISION = _TINY_VISION | {"spatial_merge_size": 1, "temporal_patch_size": 1, "num_position_embeddings": 16}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "mixtral": ("MixtralConfig", _SIZES | _LOCAL),
    "olmoe": ("OlmoeConfig", _SIZES | _PLAIN),
    "qwen2_moe": ("Qwen2MoeConfig", _SIZES | _PLAIN | _SMALL | {"shared_expert_intermediate_size": 8}),
    "qwen3_moe": ("Qwen3MoeConfig", _SIZES | _LOCAL | _SMALL),
    "flex_olmo": ("FlexOlmoConfig", _SIZES | _PLAIN),
    "qwen3_5_moe_text": ("Qwen3_5MoeTextConfig", _SIZES | _PLAIN | _SMALL | _LINEAR),
    "qwen3_5_moe": (
        "Qwen3_5MoeConfig",
        {"text_config": _SIZES | _PLAIN | _SMALL | _LINEAR, "vision_config": _QWEN_VISION},
    ),
    "qwen3_vl_moe": (
        "Qwen3VLMoeConfig",
        {
            "text_config": _SIZES | _PLAIN | _SMALL,
            "vision_config": _QWEN_VISION | {"deepstack_visual_indexes": [0]},
        },
    ),
    "qwen3_next": ("Qwen3NextConfig", _SIZES | _PLAIN | _SMALL | _LINEAR),
    "deepseek_v2": (
        "DeepseekV2Config",
        _SIZES | _ROUTED | _SMALL | _LATENT | _GROUPS | {"topk_method": "group_limited_greedy"},
    ),
    "deepseek_v3": ("DeepseekV3Config", _SIZES | _ROUTED | _SMALL | _LATENT | _GROUPS | {"head_dim": 4}),
    "deepseek_v32": ("DeepseekV32Config", _SIZES | _ROUTED | _SMALL | _LATENT | _GROUPS | {"head_dim": 4}),
    "glm4_moe": ("Glm4MoeConfig", _SIZES | _ROUTED | _SMALL | _GROUPS),
    "glm4v_moe": (
        "Glm4vMoeConfig",
        {
            "text_config": _SIZES | _ROUTED | _SMALL | _GROUPS | {"rope_parameters": _THREE_AXES},
            "vision_config": _TINY_VISION | {"image_size": 4},
        },
    ),
    "glm4_moe_lite": ("Glm4MoeLiteConfig", _SIZES | _ROUTED | _SMALL | _LATENT | _GROUPS | {"head_dim": 4}),
    "glm_moe_dsa": ("GlmMoeDsaConfig", _SIZES | _ROUTED | _SMALL | _LATENT | _GROUPS | {"head_dim": 4}),
    "dots1": ("Dots1Config", _SIZES | _ROUTED | _SMALL | _GROUPS),
    "mimo_v2_flash": ("MiMoV2FlashConfig", _SIZES | _ROUTED | _SMALL | _GROUPS | {"num_key_value_heads": 1}),
    "solar_open": ("SolarOpenConfig", _SIZES | _ROUTED | _SMALL | _GROUPS),
    "exaone_moe": (
        "ExaoneMoeConfig",
        _SIZES | _PLAIN | _SMALL | _GROUPS | {"num_shared_experts": 1, "first_k_dense_replace": 1},
    ),
    "gpt_oss": ("GptOssConfig", _SIZES | _LOCAL | {"rope_parameters": _YARN}),
    "llama4_text": ("Llama4TextConfig", _SIZES | _LLAMA4),
    "llama4": ("Llama4Config", {"text_config": _SIZES | _LLAMA4, "vision_config": _VISION}),
    "granitemoe": ("GraniteMoeConfig", _SIZES | _LOCAL),
    "granitemoeshared": ("GraniteMoeSharedConfig", _SIZES | _LOCAL | {"shared_intermediate_size": 8}),
    "granitemoehybrid": ("GraniteMoeHybridConfig", _SIZES | _LOCAL | _HYBRID),
    "phimoe": ("PhimoeConfig", _SIZES | _LOCAL),
    "minimax": ("MiniMaxConfig", _SIZES | _LOCAL | {"block_size": 8}),
    "minimax_m2": ("MiniMaxM2Config", _SIZES | _LOCAL | {"rotary_dim": 4}),
    "jamba": ("JambaConfig", _SIZES | _PLAIN | _JAMBA),
    "lfm2_moe": ("Lfm2MoeConfig", _SIZES | _PLAIN | _SMALL | _LFM2),
    "afmoe": ("AfmoeConfig", _SIZES | _PLAIN | _SMALL | {"num_shared_experts": 1, "num_dense_layers": 1}),
    "hunyuan_v1_moe": ("HunYuanMoEV1Config", _SIZES | {"num_experts": EXPERTS, "moe_topk": 2}),
    "hy_v3": ("HYV3Config", _SIZES | _PLAIN | _SMALL),
    "nemotron_h": ("NemotronHConfig", _SIZES | _ROUTED | _SMALL | _GROUPS | _NEMOTRON),
    "cohere2_moe": ("Cohere2MoeConfig", _SIZES | _PLAIN | _SMALL),
    "ernie4_5_moe": ("Ernie4_5_MoeConfig", _SIZES | _ERNIE | _SMALL),
    "dbrx": ("DbrxConfig", _DBRX),
    "switch_transformers": ("SwitchTransformersConfig", _SWITCH),
}


def tiny(name: str, seed: int = 0, kind: torch.dtype = torch.float32, **changes: Any) -> Any:
    """A tiny model with random weights, those of routers too that start at 0; built once, then copied."""
    return _built(name, seed, kind, **changes) if changes else copy.deepcopy(_as_declared(name, seed, kind))


@functools.cache
def _as_declared(name: str, seed: int, kind: torch.dtype) -> Any:
    return _built(name, seed, kind)


def _built(name: str, seed: int, kind: torch.dtype, **changes: Any) -> Any:
    config, fields = CASES[name]
    torch.manual_seed(seed)
    model = auto(name).from_config(getattr(transformers, config)(**{**fields, **changes}), dtype=kind)
    with torch.no_grad():
        for key, tensor in model.state_dict().items():
            if key.endswith(("_bias", "router.bias", "classifier.bias", "router.gate.weight")):
                tensor.normal_(std=0.1)
    return model.eval()


def auto(name: str) -> Any:
    """The class whose from_pretrained reads a family's checkpoints."""
    kinds = {"switch_transformers": "AutoModelForSeq2SeqLM"}
    kinds |= dict.fromkeys(("llama4", "qwen3_5_moe", "qwen3_vl_moe", "glm4v_moe"), "AutoModelForImageTextToText")
    return getattr(transformers, kinds.get(name, "AutoModelForCausalLM"))


def inputs(name: str, seed: int = 0) -> dict[str, Tensor]:
    """Three texts of ten tokens, as keyword inputs."""
    ids = torch.randint(3, 48, (3, 10), generator=torch.Generator().manual_seed(seed))
    return {"input_ids": ids, "decoder_input_ids": ids.flip(1)} if name == "switch_transformers" else {"input_ids": ids}


def logits(model: nn.Module, given: dict[str, Tensor]) -> Tensor:
    """What a model answers."""
    with torch.no_grad():
        return model(**given).logits
