"""Random models in the released format against a forward pass written out with NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from moe_lab_papers.pruning2024.vmoe import VMoE
from tests.vmoe import plain_vmoe


def drawn(random: np.random.Generator) -> tuple[dict[str, Any], tuple[int, ...]]:
    """A config in the released layout, with every option that inference depends on, and the shape of images."""

    def one_of(*values: Any) -> Any:
        return values[random.integers(len(values))]

    members = one_of(None, None, 1, 2, 3)
    experts, classifier = (members or 1) * one_of(1, 2, 3, 5), one_of("token", "gap", "map", "0")
    patch, grid = [one_of(2, 4), one_of(2, 4)], (one_of(1, 2), one_of(1, 2, 3))
    height, width = (side * count + one_of(0, 1) for side, count in zip(patch, grid, strict=True))
    count, tokens = one_of(4, 6), grid[0] * grid[1] + (classifier == "token")
    whole = count * tokens * (members or 1)
    sizes = [size for size in range(1, whole + 1) if whole % size == 0 and size % (members or 1) == 0]
    factor, group = one_of(0.4, 1.0, 1.05, 4.0), one_of(*sizes[-4:])
    dispatcher = {"name": one_of("einsum", "indices"), "batch_priority": one_of(True, False)}
    dispatcher |= one_of({"capacity": 2}, {"capacity_factor": factor}, {"capacity_factor": factor})
    dispatcher |= one_of({}, {"capacity_multiple_of": None}, {"capacity_multiple_of": 1})
    dispatcher |= one_of({}, {"bfloat16": True}, {"bfloat16": False})
    router = {"num_selected_experts": int(random.integers(1, experts // (members or 1) + 1)), "dispatcher": dispatcher}
    if group * router["num_selected_experts"] * factor / experts >= 1:
        dispatcher |= one_of({}, {"capacity_ceil_or_round": "round"})
    layers = one_of([0], [1], [0, 1], [0, 2])
    moe = {"num_experts": experts, "group_size": group, "layers": layers, "router": router, "split_rngs": False}
    encoder = {"num_layers": layers[-1] + one_of(1, 2), "num_heads": one_of(1, 2), "mlp_dim": one_of(5, 8)}
    config = {
        "name": "VisionTransformerMoe" + ("Ensemble" if members else ""),
        "num_classes": one_of(0, 4),
        "patch_size": patch,
        "hidden_size": encoder["num_heads"] * one_of(4, 6),
        "classifier": classifier,
        "representation_size": one_of(None, 7),
        "encoder": encoder | {"moe": moe | ({"ensemble_size": members} if members else {})},
    }
    return config, (count, height, width, 3)


def shapes(config: dict[str, Any], image: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """The names and shapes of the parameters, as the released checkpoints have them."""
    size, encoder = config["hidden_size"], config["encoder"]
    heads, neurons, moe = encoder["num_heads"], encoder["mlp_dim"], encoder["moe"]
    rows, columns = image[1] // config["patch_size"][0], image[2] // config["patch_size"][1]
    positions = rows * columns + (config["classifier"] == "token")
    found: dict[str, tuple[int, ...]] = {"Encoder/posembed_input/pos_embedding": (1, positions, size)}

    def dense(place: str, kernel: tuple[int, ...], bias: tuple[int, ...]) -> None:
        found.update({f"{place}/kernel": kernel, f"{place}/bias": bias})

    def norm(place: str) -> None:
        found.update({f"{place}/scale": (size,), f"{place}/bias": (size,)})

    def attention(place: str) -> None:
        for name in ("query", "key", "value"):
            dense(f"{place}/{name}", (size, heads, size // heads), (heads, size // heads))
        dense(f"{place}/out", (heads, size // heads, size), (size,))

    def mlp(place: str, *experts: int) -> None:
        dense(f"{place}/Dense_0", (*experts, size, neurons), (*experts, neurons))
        dense(f"{place}/Dense_1", (*experts, neurons, size), (*experts, size))

    dense("embedding", (*config["patch_size"], 3, size), (size,))
    if config["classifier"] == "token":
        found["cls"] = (1, 1, size)
    for number in range(encoder["num_layers"]):
        place = f"Encoder/encoderblock_{number}"
        norm(f"{place}/LayerNorm_0")
        norm(f"{place}/LayerNorm_1")
        attention(f"{place}/SelfAttention")
        if number in moe["layers"]:
            mlp(f"{place}/Moe/Mlp", moe["num_experts"])
            members = moe.get("ensemble_size")
            split = (moe["num_experts"],) if members is None else (members, moe["num_experts"] // members)
            found[f"{place}/Moe/Router/dense/kernel"] = (size, *split)
        else:
            mlp(f"{place}/Mlp")
    norm("Encoder/encoder_norm")
    if config["classifier"] == "map":
        found["MapHead/probe"] = (1, 1, size)
        attention("MapHead/MultiHeadDotProductAttention")
        norm("MapHead/LayerNorm")
        mlp("MapHead/Mlp")
    width = config["representation_size"]
    if width:
        dense("pre_logits", (size, width), (width,))
    if config["num_classes"]:
        dense("head", (width or size, config["num_classes"]), (config["num_classes"],))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_random_models_are_those_of_plain_loops(seed: int, tmp_path: Path) -> None:
    """In float64, because in float32 rounding to bfloat16 may part: ten models of each seed, to 1e-10."""
    random, short = np.random.default_rng(seed), 0
    for _ in range(10):
        config, shape = drawn(random)
        half = bool(random.integers(2))
        weights = {
            name: random.standard_normal(size).astype(np.float32) for name, size in shapes(config, shape).items()
        }
        weights = {name: (0.4 * value + name.endswith("scale")).astype(np.float32) for name, value in weights.items()}
        if half:  # numbers that a bfloat16 can hold
            weights = {name: (v.view(np.uint32) & 0xFFFF0000).view(np.float32) for name, v in weights.items()}
        prefix = tmp_path / "c"
        plain_vmoe.write(prefix, weights, shards=int(random.integers(1, 4)), rows=int(random.integers(1, 9)), half=half)
        model = VMoE.from_checkpoint(prefix, config).double()
        images = random.standard_normal(shape)
        with torch.no_grad():
            found = model.run(torch.from_numpy(images))
        wanted = plain_vmoe.forward(config, weights, images)
        np.testing.assert_allclose(found.logits, wanted, rtol=1e-10, atol=1e-10, err_msg=str(config))
        short += any(bool((~assigned.served).any()) for assigned in found.routed.values())
    assert short >= 3, "capacity is short in some"
