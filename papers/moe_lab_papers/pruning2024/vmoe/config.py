"""The Config of a V-MoE or E3 model, and how it follows from a mapping in the layout of the released configs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self

from pydantic import field_validator, model_validator

from moe_lab.core.config import Config, ConfigError, knob, require

Classifier = Literal["token", "gap", "map", "0"]
Pruning = Literal["silent", "rerouted"]


class VMoEConfig(Config):
    """A vision transformer with mixtures of experts in some blocks; the defaults are V-MoE B/16 fine-tuned on CIFAR-10.

    Names are those of the released configs, without their nesting. With `ensemble_size` the model is an E3: the tokens
    of each image are repeated before the first mixture, and member m of the ensemble owns the m-th part of the experts.
    The rates of dropout and the weights of the losses matter in training alone.

    Raises:
      ConfigError: a value is out of bounds, or values do not fit together.

    References: Riquelme et al., 2021 (V-MoE); Allingham et al., 2022 (E3); pruning2024, section 5.2 and appendix A.
    """

    num_classes: int = knob(10, meaning="classes; 0 to return the representation", ge=0, le=10**6)
    patch_size: tuple[int, int] = knob((16, 16), meaning="height and width of a patch", unit="pixels")
    hidden_size: int = knob(768, symbol="D", meaning="dimensions of a token", ge=1, le=2**16)
    classifier: Classifier = knob(
        "token",
        meaning="what the head reads: the class token, the mean, an attention-pooled token, or the first token",
        choices=("token", "gap", "map", "0"),
    )
    representation_size: int | None = knob(None, meaning="width of the tanh layer before the head, or none")
    head_bias_init: float = knob(0.0, meaning="initial bias of the head")
    positions: int = knob(65, symbol="T", meaning="tokens of an image, the class token included", ge=1, le=2**20)
    channels: int = knob(3, meaning="channels of an image", ge=1, le=1024)
    num_layers: int = knob(12, meaning="encoder blocks", ge=1, le=1024)
    num_heads: int = knob(12, meaning="attention heads", ge=1, le=2**16)
    mlp_dim: int = knob(3072, symbol="F", meaning="neurons of an MLP, and of an expert", ge=1, le=2**20)
    dropout_rate: float = knob(0.0, meaning="dropout, in training alone", ge=0, lt=1)
    attention_dropout_rate: float = knob(0.0, meaning="dropout of attention, in training alone", ge=0, lt=1)
    layers: tuple[int, ...] = knob((1, 3, 5, 7, 9, 11), meaning="blocks with a mixture of experts, from 0")
    num_experts: int = knob(8, symbol="E", meaning="experts in a mixture", ge=1, le=2**16)
    num_selected_experts: int = knob(2, symbol="K", meaning="experts that a token selects", ge=1, le=2**16)
    ensemble_size: int | None = knob(
        None, symbol="M", meaning="members of the ensemble; none for V-MoE", ge=1, le=2**16
    )
    group_size: int = knob(520, symbol="S", meaning="tokens that are routed together", ge=1, le=2**31)
    capacity_factor: float | None = knob(1.5, meaning="capacity of an expert over an equal share of the tokens")
    capacity: int | None = knob(
        None, symbol="C", meaning="tokens per expert and group; replaces the capacity factor", ge=1, le=2**31
    )
    capacity_ceil_or_round: Literal["ceil", "round"] = knob("ceil", meaning="how the capacity becomes a whole number")
    capacity_multiple_of: int | None = knob(4, meaning="the capacity is rounded up to a multiple of this")
    batch_priority: bool = knob(False, meaning="whether tokens with large gates come first when capacity is short")
    bfloat16: bool = knob(True, meaning="whether tokens are rounded to bfloat16 on the way to experts and back")
    split_rngs: bool = knob(False, meaning="whether experts start from different weights")
    noise_std: float = knob(1.0, meaning="noise of router logits times E/M, in training alone", ge=0, le=1e6)
    importance_loss_weight: float = knob(0.005, meaning="weight of the importance loss", ge=0, le=1e6)
    load_loss_weight: float = knob(0.005, meaning="weight of the load loss", ge=0, le=1e6)
    pruning: Pruning = knob(
        "silent", meaning="whether routers of pruned experts stay, or go too", choices=("silent", "rerouted")
    )
    kept: tuple[tuple[int, ...], ...] = knob((), meaning="experts that each of the layers has kept; none if unpruned")

    name: ClassVar[str] = "v-moe"

    @field_validator("kept", mode="before")
    @classmethod
    def _nested(cls, kept: Any) -> Any:
        if isinstance(kept, (list, tuple)):
            nested = all(isinstance(experts, (list, tuple)) for experts in kept)
            require(nested, "kept must hold sequences of whole numbers only", kept=kept)
        return kept

    @model_validator(mode="after")
    def _fits(self) -> Self:
        require(min(self.patch_size) >= 1, "patch_size must be at least 1 pixel", patch_size=self.patch_size)
        rule = "hidden_size (D) must be a multiple of num_heads"
        require(self.hidden_size % self.num_heads == 0, rule, D=self.hidden_size, num_heads=self.num_heads)
        for name in ("representation_size", "ensemble_size", "capacity"):
            require((getattr(self, name) or 1) >= 1, f"{name} must be at least 1", **{name: getattr(self, name)})
        if self.layers:
            self._check_mixtures()
        return self

    def _check_mixtures(self) -> None:
        inside = all(0 <= layer < self.num_layers for layer in self.layers)
        rule = "layers must be different blocks, from 0 to num_layers - 1"
        proper = inside and len(set(self.layers)) == len(self.layers)
        require(proper, rule, layers=self.layers, num_layers=self.num_layers)
        rule = "num_experts (E) and group_size (S) must be multiples of ensemble_size (M)"
        proper = self.num_experts % self.members == 0 and self.group_size % self.members == 0
        require(proper, rule, E=self.num_experts, S=self.group_size, M=self.members)
        rule = "num_selected_experts (K) must be at most the experts of a member (E/M)"
        own = self.num_experts // self.members
        require(self.num_selected_experts <= own, rule, K=self.num_selected_experts, E=self.num_experts, M=self.members)
        one = (self.capacity is None) != (self.capacity_factor is None)
        rule = "either capacity_factor or capacity must be given"
        require(one, rule, capacity_factor=self.capacity_factor, capacity=self.capacity)
        proper = self.capacity_factor is None or self.capacity_factor > 0
        require(proper, "capacity_factor must be greater than 0", capacity_factor=self.capacity_factor)
        share = self.group_size * self.num_selected_experts * (self.capacity_factor or 1) / self.num_experts
        rule = "capacity_factor must give an expert at least half a place in a group, where places are rounded"
        proper = self.capacity_ceil_or_round == "ceil" or round(share) >= 1
        sizes = {"S": self.group_size, "K": self.num_selected_experts, "E": self.num_experts}
        require(proper, rule, capacity_factor=self.capacity_factor, **sizes)
        rule = "kept must list the experts of each of the layers, or nothing"
        require(len(self.kept) in (0, len(self.layers)), rule, kept=self.kept, layers=self.layers)
        for layer, experts in zip(self.layers, self.kept, strict=False):
            self._check_kept(layer, experts)

    def _check_kept(self, layer: int, experts: tuple[int, ...]) -> None:
        ascending = all(first < second for first, second in pairwise(experts))
        inside = all(0 <= expert < self.num_experts for expert in experts)
        rule = "kept experts must be ascending numbers from 0 to E - 1"
        require(ascending and inside, rule, block=layer, kept=experts, E=self.num_experts)
        each = self.num_experts // self.members
        own = [sum(expert // each == member for expert in experts) for member in range(self.members)]
        rule = "a mixture must keep at least K experts, in E3 of each member"
        require(min(own) >= self.num_selected_experts, rule, block=layer, kept=experts, K=self.num_selected_experts)
        rule = "with rerouted tokens each member must keep the same number of experts"
        require(self.pruning == "silent" or min(own) == max(own), rule, block=layer, kept=experts, M=self.members)

    @property
    def members(self) -> int:
        """M, the members of the ensemble; 1 for V-MoE."""
        return self.ensemble_size or 1

    @property
    def images_per_batch(self) -> int:
        """The fewest images whose tokens fill whole groups; a batch must be a multiple of it."""
        tokens = self.positions * self.members
        return math.lcm(tokens, self.group_size) // tokens if self.layers else 1

    def kept_in(self, layer: int) -> tuple[int, ...]:
        """Returns the numbers of the experts that a block still has, ascending."""
        return self.kept[self.layers.index(layer)] if self.kept else tuple(range(self.num_experts))

    def routes_in(self, layer: int) -> tuple[int, ...]:
        """Returns the numbers of the experts that tokens choose among: all with silent pruning, else those kept."""
        return self.kept_in(layer) if self.pruning == "rerouted" else tuple(range(self.num_experts))


# What the reference assumes where a released config says nothing:
_UNSAID: dict[str, Any] = {
    "num_selected_experts": 1,
    "importance_loss_weight": 1.0,
    "load_loss_weight": 1.0,
    "capacity_factor": None,
    "bfloat16": False,
    "layers": (),
}
_HERE = ("num_classes", "patch_size", "hidden_size", "classifier", "representation_size", "head_bias_init")
_ENCODER = ("num_layers", "num_heads", "mlp_dim", "dropout_rate", "attention_dropout_rate")
_MIXTURE = ("layers", "num_experts", "group_size", "ensemble_size", "split_rngs")
_ROUTER = ("num_selected_experts", "noise_std", "importance_loss_weight", "load_loss_weight")
_DISPATCHER = (
    "capacity_factor",
    "capacity",
    "capacity_ceil_or_round",
    "capacity_multiple_of",
    "batch_priority",
    "bfloat16",
)
_NEEDED = {
    "": ("num_classes", "patch_size", "hidden_size", "encoder"),
    "encoder": ("num_layers", "num_heads", "mlp_dim"),
}
# Values that change nothing here: how arrays are spread over devices, and options at the value that is built in.
_FIXED: dict[str, tuple[Any, ...]] = {
    "name": ("VisionTransformerMoe", "VisionTransformerMoeEnsemble"),
    "deterministic": (True,),
    "encoder.deterministic": (True,),
    "encoder.dtype": (None, "float32"),
    "encoder.attention_qk_norm": (False,),
    "encoder.position_emb": (None, {}, {"name": "learned"}),
    "encoder.moe.deterministic": (True,),
    "encoder.moe.dtype": (None, "float32"),
    "encoder.moe.router.name": ("NoisyTopExpertsPerItemRouter",),
    "encoder.moe.router.deterministic": (True,),
    "encoder.moe.router.gshard_loss_weight": (0,),
    "encoder.moe.router.dispatcher.name": ("einsum", "indices"),
}
_IGNORED = (
    "head_kernel_zero_init",
    "encoder.moe.dropout_rate",
    "encoder.moe.router.dispatcher.partition_spec",
    "encoder.moe.router.dispatcher.einsum_precision",
)


def released_config(config: Mapping[str, Any], positions: int | None = None) -> VMoEConfig:
    """Reads a config in the layout of the released ones, with its nested encoder, moe, router and dispatcher.

    The layout has no size of an image: `image_size`, one number or (height, width) in pixels, or `positions` may be
    added beside `patch_size`.

    Args:
      config: the mapping.
      positions: tokens of an image where the mapping says nothing, as a checkpoint knows it.

    Raises:
      ConfigError: an option is missing, unknown or not supported, or a value is wrong.
    """
    values, sections = dict(_UNSAID), {"": config}
    encoder = sections["encoder"] = _section(config, "encoder")
    mixture = sections["encoder.moe"] = _section(encoder, "moe")
    router = sections["encoder.moe.router"] = _section(mixture, "router")
    sections["encoder.moe.router.dispatcher"] = _section(router, "dispatcher")
    names = ((*_HERE, "channels", "positions", "image_size"), _ENCODER, _MIXTURE, _ROUTER, _DISPATCHER)
    for (place, section), known in zip(sections.items(), names, strict=True):
        for needed in _NEEDED.get(place, ()):
            _refuse_unless(needed in section, f"a released config needs {_path(place, needed)}", got=sorted(section))
        values |= {name: value for name, value in section.items() if name in known}
        for name in section.keys() - set(known):
            _check_option(_path(place, name), section[name])
    ensemble = config.get("name", "").endswith("Ensemble")
    given = values.get("ensemble_size") is not None
    rule = "ensemble_size belongs to a VisionTransformerMoeEnsemble, and to no other model"
    _refuse_unless("name" not in config or ensemble == given, rule, name=config.get("name"))
    values["patch_size"] = _pair(values["patch_size"], "patch_size")
    values["num_classes"] = values["num_classes"] or 0
    if values["capacity_factor"] is None and values.get("capacity") is None:
        _refuse_unless(not values["layers"], "the dispatcher needs capacity_factor or capacity", got=sorted(router))
        values["capacity_factor"] = 1.0
    if not values["layers"]:
        values["num_selected_experts"] = 1
    return VMoEConfig(**_with_positions(values, positions))


def _section(parent: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = parent.get(name)
    section = {} if section is None else section
    _refuse_unless(isinstance(section, Mapping), f"{name} must be a mapping", **{name: section})
    return section


def _path(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _check_option(path: str, value: Any) -> None:
    """Raises unless an option is known, and has a value under which this model computes what the reference does."""
    if path in _IGNORED or path in ("encoder", "encoder.moe", "encoder.moe.router", "encoder.moe.router.dispatcher"):
        return
    _refuse_unless(path in _FIXED, "a released config has no such option", option=path)
    choices = " or ".join(map(repr, _FIXED[path]))
    _refuse_unless(value in _FIXED[path], f"{path} is supported at {choices} only", value=value)


def _with_positions(values: dict[str, Any], known: int | None) -> dict[str, Any]:
    """Replaces image_size by positions."""
    image_size = values.pop("image_size", None)
    if image_size is not None:
        sides = zip(_pair(image_size, "image_size"), values["patch_size"], strict=True)
        height, width = (side // patch for side, patch in sides)
        counted = height * width + (values.get("classifier", "token") == "token")
        _refuse_unless(values.setdefault("positions", counted) == counted, "image_size and positions must agree",
                       image_size=image_size, positions=values["positions"])  # fmt: skip
    if values.get("positions") is None:
        _refuse_unless(known is not None, "a config needs the image_size, which the released layout lacks", got=None)
        values["positions"] = known
    return values


def _pair(value: Any, name: str) -> tuple[int, int]:
    pair = (value, value) if isinstance(value, int) else tuple(value) if isinstance(value, (list, tuple)) else ()
    whole = len(pair) == 2 and all(isinstance(side, int) and side >= 1 for side in pair)
    _refuse_unless(whole, f"{name} must be one or two whole numbers from 1", **{name: value})
    return pair  # type: ignore[return-value]


def _refuse_unless(holds: bool, rule: str, **received: Any) -> None:
    try:
        require(holds, rule, **received)
    except ValueError as error:
        raise ConfigError(str(error)) from None
