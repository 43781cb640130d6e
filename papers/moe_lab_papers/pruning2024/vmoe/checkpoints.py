"""Models from files: released checkpoints, and safetensors with the config among the metadata."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import safetensors
import torch
from safetensors.torch import load_file
from safetensors.torch import save as packed
from torch import Tensor

from moe_lab.core.config import ConfigError, require
from moe_lab.core.errors import MissingFileError
from moe_lab.core.files import write_whole
from moe_lab.core.sentences import brief
from moe_lab_papers.pruning2024.vmoe.config import VMoEConfig
from moe_lab_papers.pruning2024.vmoe.named import named
from moe_lab_papers.pruning2024.vmoe.released import CheckpointError, read_released

Model = TypeVar("Model", bound=torch.nn.Module)
_FORMAT = "moe_lab.vision.VMoE 1"


def from_released(kind: type[Model], prefix: Path | str, config: VMoEConfig | Mapping[str, Any] | str) -> Model:
    """Makes a model from a released checkpoint; see `VMoE.from_checkpoint`."""
    arrays = read_released(prefix)
    if any(name.startswith("params/") for name in arrays):  # the state of a training: its optimizer is left out
        arrays = {name.removeprefix("params/"): array for name, array in arrays.items() if name.startswith("params/")}
    weights = {name.replace("/", "."): array for name, array in arrays.items()}
    return _with(kind, _config(config, weights), weights)


def _config(config: VMoEConfig | Mapping[str, Any] | str, weights: Mapping[str, np.ndarray]) -> VMoEConfig:
    """Returns the config, with the values that it leaves open and the checkpoint determines."""
    embedding = weights.get("Encoder.posembed_input.pos_embedding")
    rule = "a checkpoint must hold Encoder/posembed_input/pos_embedding, (1, positions, D)"
    proper = embedding is not None and embedding.ndim == 3
    require(proper, rule, arrays=len(weights), shape=None if embedding is None else embedding.shape)
    assert embedding is not None
    found = named(config, embedding.shape[1])
    if not isinstance(config, str):
        return found
    bias, layer = weights.get("head.bias"), weights.get("pre_logits.bias")
    images = found.group_size // (found.positions * found.members)
    return found.replace(
        num_classes=0 if bias is None else bias.size,
        representation_size=None if layer is None else layer.size,
        positions=embedding.shape[1],
        group_size=images * embedding.shape[1] * found.members,
    )


def _with(kind: type[Model], config: VMoEConfig, weights: Mapping[str, np.ndarray]) -> Model:
    with torch.device("meta"):
        model = kind(config)
    expected = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    missing, unknown = sorted(expected.keys() - weights.keys()), sorted(weights.keys() - expected.keys())
    rule = "a checkpoint must hold the parameters of the config's model, and no others"
    _require(not missing and not unknown, rule, missing=missing[:3], unknown=unknown[:3])
    tensors = {name: _tensor(name, weights[name], shape) for name, shape in expected.items()}
    model.load_state_dict(tensors, assign=True)
    return model


def _tensor(name: str, array: np.ndarray, shape: tuple[int, ...]) -> Tensor:
    split = name.endswith("Router.dense.kernel") and array.ndim == 2 and len(shape) == 3  # (D, E) as (D, M, E/M)
    same = array.shape == shape or (split and array.shape == (shape[0], shape[1] * shape[2]))
    rule = "a parameter must have the shape of the config's model"
    _require(same, rule, name=name, shape=array.shape, expected=shape)
    floating = np.issubdtype(array.dtype, np.floating)
    _require(floating, "a parameter must hold floating-point numbers", name=name, dtype=str(array.dtype))
    return torch.from_numpy(np.ascontiguousarray(array, np.float32).reshape(shape))


def save(model: torch.nn.Module, config: VMoEConfig, path: Path | str) -> None:
    """Writes a model; see `VMoE.save`."""
    weights = {name: parameter.detach().cpu().contiguous() for name, parameter in model.state_dict().items()}
    metadata = {"format": _FORMAT, "config": config.model_dump_json()}
    write_whole(path, packed(weights, metadata))


def load(kind: type[Model], path: Path | str) -> Model:
    """Reads a model; see `VMoE.load`."""
    if not os.path.isfile(path):
        raise MissingFileError(f"a model must be an existing file: got {brief(str(path), 190)}")
    try:
        with safetensors.safe_open(path, "numpy") as file:
            metadata = file.metadata() or {}
        rule = f"a model's metadata must be format {_FORMAT!r} and config, and nothing else"
        proper = metadata.keys() == {"format", "config"} and metadata["format"] == _FORMAT
        _require(proper, rule, path=str(path), metadata=sorted(metadata), format=metadata.get("format"))
        config = VMoEConfig(**json.loads(metadata["config"]))
        weights = {name: tensor.numpy() for name, tensor in load_file(path).items()}
    except (safetensors.SafetensorError, ConfigError, TypeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"a model must be a whole file that save wrote: got {path} ({error})") from error
    return _with(kind, config, weights)


def _require(holds: bool, rule: str, **received: Any) -> None:
    try:
        require(holds, rule, **received)
    except ValueError as error:
        raise CheckpointError(str(error)) from None
