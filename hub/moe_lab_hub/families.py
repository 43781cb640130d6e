"""The families of mixture-of-experts models that can be pruned, each declared once: names, axes and config fields.

Everything is found by name, in a model in memory (where the experts of a layer are one fused tensor in most families)
and in a checkpoint on disk (where most have one tensor for each expert). A name that belongs to a mixture-of-experts
layer and is not declared is refused, never guessed from its shape.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, Literal

from moe_lab.core.errors import InputError, OperationError
from moe_lab.core.installing import how_to_install

Neurons = Literal["", "rows", "columns", "either"]
"""How a tensor holds neurons, the vectors that an expert compares its input with; "" for tensors that hold none.

"either" is told by the shape, as transformers does: neurons are rows if these are as long as the router's.
"""

_FUSED: Mapping[str, Neurons] = {"experts.gate_up_proj": "rows", "experts.down_proj": ""}
_EITHER: Mapping[str, Neurons] = {"experts.gate_up_proj": "either", "experts.down_proj": ""}
_TRANSPOSED: Mapping[str, Neurons] = {"experts.gate_up_proj": "columns", "experts.down_proj": ""}
_GRANITE: Mapping[str, Neurons] = {**_FUSED, "input_linear.weight": "rows", "output_linear.weight": ""}
_BIASES = ("experts.gate_up_proj_bias", "experts.down_proj_bias")
_MXFP4 = tuple(f"experts.{name}_proj_{part}" for name in ("gate_up", "down") for part in ("blocks", "scales"))
_W1_W3 = ("w1.weight", "w3.weight")
_SHARED = r"(shared_(experts?|expert_gate|mlp)|fc[12]_latent_proj)\."


@dataclass(frozen=True)
class Family:
    """How the models of one architecture hold their experts. Names are relative to the mixture-of-experts block.

    Attributes:
      name: as people call it.
      model_types: `config.model_type`.
      count: the config's field that counts experts; "text_config.x" lies in a nested config.
      top: the field of K, how many experts a token gets; "" where it is 1.
      blocks: the name of the block in its layer, in memory, then on disk where it differs.
      root: what names of tensors begin with, in memory, then on disk where it differs.
      routers: the router's weights (E, D), in memory, then on disk where it differs.
      beside: what else has an entry for each expert, and along which axis.
      fused: tensors of all experts, along axis 0, and how they hold neurons.
      flat: whether axis 0 of these is E times as long as an expert's own.
      listed: the name of one expert's tensor, with its number.
      first: what follows that number in tensors that hold neurons, in rows.
      group: the field that counts groups of experts of which a token gets some; "" without groups.
      group_top: the field that counts these.
      least: how many experts each group must keep.
      call: what the experts' module is given: "index" of the chosen experts and their gates; "dense", every token for
        every expert; "one-hot" choices and gates.
    """

    name: str
    model_types: tuple[str, ...]
    count: str
    top: str = "num_experts_per_tok"
    blocks: tuple[str, ...] = ("mlp",)
    root: tuple[str, ...] = ("",)
    routers: tuple[str, ...] = ("gate.weight",)
    beside: Mapping[str, int] = field(default_factory=dict)
    fused: Mapping[str, Neurons] = field(default_factory=lambda: _FUSED)
    flat: bool = False
    listed: str = r"experts\.(\d+)\."
    first: tuple[str, ...] = ("gate_proj.weight", "up_proj.weight")
    group: str = ""
    group_top: str = ""
    least: int = 1
    call: Literal["index", "dense", "one-hot"] = "index"

    def split(self, name: str) -> tuple[str, str] | None:
        """Returns a tensor's block, as it is named in memory, and its name in the block; None outside of blocks."""
        found = re.match(rf"(?P<layer>(?:.+\.)?)(?:{'|'.join(self.blocks)})\.(?P<rest>.+)$", name)
        if found is None:
            return None
        layer = found["layer"]
        if layer.startswith(self.root[-1]):
            layer = self.root[0] + layer.removeprefix(self.root[-1])
        return f"{layer}{self.blocks[0]}", found["rest"]

    def role(self, rest: str) -> Role | None:
        """Returns the role of a tensor of a block; None if it is not declared."""
        if rest in self.routers:
            return Role("router")
        if rest in self.beside:
            return Role("sliced", axis=self.beside[rest])
        if rest in self.fused:
            return Role("sliced", neurons=self.fused[rest])
        if found := re.match(self.listed, rest):
            own = rest[found.end() :]
            return Role("listed", neurons="rows" if own in self.first else "", expert=int(found[1]))
        return Role("shared") if re.match(_SHARED, rest) else None

    def renumbered(self, rest: str, number: int) -> str:
        """Returns the name of the same tensor of another expert."""
        found = re.match(self.listed, rest)
        assert found is not None, rest
        return f"{rest[: found.start(1)]}{number}{rest[found.end(1) :]}"


@dataclass(frozen=True)
class Role:
    """The role of a tensor of a block.

    Attributes:
      kind: "router"; "sliced", with an entry for each expert; "listed", of one expert alone; "shared" by all tokens.
      axis: of the experts, for routers and sliced tensors.
      neurons: how it holds neurons.
      expert: whose it is, for listed tensors.
    """

    kind: Literal["router", "sliced", "listed", "shared"]
    axis: int = 0
    neurons: Neurons = ""
    expert: int = -1


_CORRECTED = {"gate.e_score_correction_bias": 0}
_ERNIE = {f"{where}moe_statics.e_score_correction_bias": 1 for where in ("gate.", "")}
_V3: dict[str, Any] = {"beside": _CORRECTED, "group": "n_group", "group_top": "topk_group", "least": 2}
_MIXTRAL: dict[str, Any] = {"blocks": ("mlp", "block_sparse_moe"), "first": _W1_W3}
_SPARSE: dict[str, Any] = {
    "blocks": ("block_sparse_moe",),
    "routers": ("router.weight", "router.layer.weight"),
    "fused": _GRANITE,
}
_LLAMA4: dict[str, Any] = {
    "blocks": ("feed_forward",),
    "routers": ("router.weight",),
    "fused": _TRANSPOSED,
    "call": "dense",
}


def _of_text(family: Family) -> Family:
    """A family whose fields lie in the config of its text model, within that of the whole."""
    named = {name: getattr(family, name) for name in ("count", "top", "group", "group_top")}
    nested: dict[str, Any] = {name: f"text_config.{path}" for name, path in named.items() if path}
    return replace(family, **nested)


FAMILIES: tuple[Family, ...] = (
    Family("Mixtral", ("mixtral",), "num_local_experts", **_MIXTRAL),
    Family("OLMoE", ("olmoe",), "num_experts"),
    Family("FlexOlmo", ("flex_olmo",), "num_experts"),
    Family("Qwen2-MoE", ("qwen2_moe",), "num_experts"),
    Family("Qwen3-MoE", ("qwen3_moe",), "num_local_experts"),
    Family("Qwen3-Next", ("qwen3_next",), "num_experts"),
    Family("Qwen3.5-MoE", ("qwen3_5_moe_text",), "num_experts"),
    _of_text(Family("Qwen3.5-MoE with images", ("qwen3_5_moe",), "num_experts")),
    _of_text(Family("Qwen3-VL-MoE", ("qwen3_vl_moe",), "num_local_experts", fused=_EITHER)),
    Family("DeepSeek-V2", ("deepseek_v2",), "n_routed_experts", group="n_group", group_top="topk_group"),
    Family("DeepSeek-V3", ("deepseek_v3",), "n_routed_experts", **_V3),
    Family("DeepSeek-V3.2", ("deepseek_v32",), "n_routed_experts", **_V3),
    Family("GLM-4-MoE", ("glm4_moe",), "n_routed_experts", **_V3),
    _of_text(Family("GLM-4.5V", ("glm4v_moe",), "n_routed_experts", **_V3)),
    Family("GLM-4.7-Flash", ("glm4_moe_lite",), "n_routed_experts", **_V3),
    Family("GLM-5", ("glm_moe_dsa",), "n_routed_experts", **_V3),
    Family("dots.llm1", ("dots1",), "n_routed_experts", **_V3),
    Family("MiMo-V2-Flash", ("mimo_v2_flash",), "n_routed_experts", **_V3),
    Family("Solar Open", ("solar_open",), "n_routed_experts", **_V3),
    Family(
        "K-EXAONE", ("exaone_moe",), "num_experts", **{**_V3, "beside": {**_CORRECTED, "e_score_correction_bias": 0}}
    ),
    Family(
        "gpt-oss",
        ("gpt_oss",),
        "num_local_experts",
        routers=("router.weight",),
        beside={"router.bias": 0, **dict.fromkeys((*_BIASES, *_MXFP4), 0)},
        fused=_TRANSPOSED,
    ),
    Family("Llama 4", ("llama4_text",), "num_local_experts", **_LLAMA4),
    _of_text(Family("Llama 4 with images", ("llama4",), "num_local_experts", **_LLAMA4)),
    Family("Granite MoE", ("granitemoe",), "num_local_experts", **_SPARSE),
    Family("Granite MoE with shared experts", ("granitemoeshared",), "num_local_experts", **_SPARSE),
    Family("Granite hybrid", ("granitemoehybrid",), "num_local_experts", **_SPARSE),
    Family("Phi-MoE", ("phimoe",), "num_local_experts", routers=("router.weight", "gate.weight"), **_MIXTRAL),
    Family("MiniMax", ("minimax",), "num_local_experts", **_MIXTRAL),
    Family("MiniMax-M2", ("minimax_m2",), "num_local_experts", beside={"e_score_correction_bias": 0}, **_MIXTRAL),
    Family("Jamba", ("jamba",), "num_experts", blocks=("feed_forward",), routers=("router.weight",)),
    Family("LFM2-MoE", ("lfm2_moe",), "num_experts", blocks=("feed_forward",), beside={"expert_bias": 0}, first=_W1_W3),
    Family("Trinity", ("afmoe",), "num_experts", routers=("router.gate.weight",), beside={"expert_bias": 0}),
    Family("Hunyuan-A13B", ("hunyuan_v1_moe",), "num_experts", "moe_topk", routers=("gate.wg.weight",)),
    Family(
        "Hy3",
        ("hy_v3",),
        "num_experts",
        routers=("gate.weight", "router.gate.weight"),
        beside={"e_score_correction_bias": 0, "expert_bias": 0},
    ),
    Family(
        "Nemotron-H",
        ("nemotron_h",),
        "n_routed_experts",
        blocks=("mixer",),
        root=("model.", "backbone."),
        fused={"experts.up_proj": "rows", "experts.down_proj": ""},
        first=("up_proj.weight",),
        **_V3,
    ),
    Family("Command A+", ("cohere2_moe",), "num_experts"),
    Family("Ernie 4.5", ("ernie4_5_moe",), "moe_num_experts", "moe_k", beside=_ERNIE),
    Family(
        "DBRX",
        ("dbrx",),
        "ffn_config.moe_num_experts",
        "ffn_config.moe_top_k",
        blocks=("ffn",),
        routers=("router.layer.weight",),
        fused={"experts.mlp.w1": "rows", "experts.mlp.v1": "rows", "experts.mlp.w2": ""},
        flat=True,
    ),
    Family(
        "Switch",
        ("switch_transformers",),
        "num_experts",
        "",
        routers=("router.classifier.weight",),
        beside={"router.classifier.bias": 0},
        listed=r"experts\.expert_(\d+)\.",
        first=("wi.weight",),
        call="one-hot",
    ),
)

REFUSED: Mapping[str, str] = {
    "nllb-moe": "transformers computes NLLB-MoE with experts 0 and 1 alone, whatever its router says",
}
"""Families that cannot be pruned, and why."""


def family_of(model_type: str) -> Family:
    """Returns the family of a config's `model_type`.

    Raises:
      ValueError: it is refused, or unknown.
    """
    if model_type in REFUSED:
        raise InputError(f"{REFUSED[model_type]}: got model_type={model_type!r}")
    for family in FAMILIES:
        if model_type in family.model_types:
            return family
    rule = f"experts can be pruned in models of {len(FAMILIES)} families (moe_lab_hub.families.FAMILIES)"
    raise InputError(f"{rule}: got model_type={model_type!r}")


def transformers() -> ModuleType:
    """Imports transformers, when it is first needed, and returns it.

    Raises:
      RuntimeError: it is not installed.
    """
    try:
        return importlib.import_module("transformers")
    except ImportError as error:
        raise OperationError(f"moe_lab_hub needs transformers: {how_to_install('hub')} ({error})") from error


def read_field(config: Any, path: str) -> Any:
    """Returns a config's field; "text_config.x" lies in a nested config."""
    for part in path.split("."):
        config = getattr(config, part)
    return config


def write_field(config: Any, path: str, value: int) -> None:
    """Sets a config's field."""
    *parents, last = path.split(".")
    for part in parents:
        config = getattr(config, part)
    setattr(config, last, value)
