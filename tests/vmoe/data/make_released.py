"""Makes released.npz: checkpoints written, and logits computed, by the reference implementation of V-MoE and E3.

The reference needs JAX, which moe_lab does not. In an environment of its own:

    pip install jax==0.10.2 flax==0.12.8
    git clone https://github.com/google-research/vmoe                 (read at 942a78b)
    git clone https://github.com/google-research/vision_transformer
    PYTHONPATH=vmoe:vision_transformer python make_released.py released.npz

The reference writes files through tensorflow.io.gfile and names jax.core.ShapedArray, which newer versions of JAX have
moved; both are put in place below. For each case the file holds the config in the released layout as JSON, images,
logits, and the bytes of the checkpoint's files.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import jax
import jax._src.core
import jax.numpy as jnp
import numpy as np

gfile = types.ModuleType("tensorflow.io.gfile")
gfile.GFile, gfile.exists, gfile.stat, gfile.remove = open, os.path.exists, os.stat, os.remove
gfile.makedirs = lambda path: os.makedirs(path, exist_ok=True)
gfile.rename = lambda old, new, overwrite=False: os.replace(old, new)
io = types.ModuleType("tensorflow.io")
io.gfile = gfile
sys.modules |= {"tensorflow": types.ModuleType("tensorflow"), "tensorflow.io": io, "tensorflow.io.gfile": gfile}
jax.core.ShapedArray = jax._src.core.ShapedArray

from vmoe.checkpoints import partitioned  # noqa: E402
from vmoe.nn import vit_moe, vit_moe_ensemble  # noqa: E402


def config(classifier: str, group_size: int, dispatcher: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A small model in the layout of the released configs."""
    members = more.get("ensemble_size")
    moe = {
        "num_experts": more.get("num_experts", 4),
        "group_size": group_size,
        "layers": more.get("layers", [1]),
        "dropout_rate": 0.0,
        "split_rngs": False,
        "router": {
            "num_selected_experts": more.get("num_selected_experts", 2),
            "noise_std": 1.0,
            "importance_loss_weight": 0.005,
            "load_loss_weight": 0.005,
            "dispatcher": {"name": "einsum", "bfloat16": False, "partition_spec": [["expert", "replica"]]} | dispatcher,
        },
    }
    return {
        "name": "VisionTransformerMoe" + ("Ensemble" if members else ""),
        "num_classes": 5,
        "patch_size": more.get("patch_size", [4, 4]),
        "hidden_size": 8,
        "classifier": classifier,
        "representation_size": more.get("representation_size"),
        "head_bias_init": -1.0,
        "encoder": {
            "num_layers": more.get("num_layers", 2),
            "num_heads": 2,
            "mlp_dim": 12,
            "dropout_rate": 0.0,
            "attention_dropout_rate": 0.0,
            "moe": moe | ({"ensemble_size": members} if members else {}),
        },
    }


# name: config, shape of the images, shards, bytes of a chunk
CASES = {
    "token": (
        config("token", 20, {"capacity_factor": 0.5, "batch_priority": True}, representation_size=6),
        (8, 8, 8, 3),
        1,
        2**28,
    ),
    "gap": (
        config(
            "gap", 12, {"capacity_factor": 0.4, "capacity_multiple_of": 1, "batch_priority": False}, patch_size=[4, 2]
        ),
        (6, 8, 12, 3),
        2,
        300,
    ),
    "map": (
        config("map", 8, {"name": "indices", "capacity_factor": 1.05, "bfloat16": True, "batch_priority": False}),
        (4, 8, 8, 3),
        1,
        2**28,
    ),
    "e3": (
        config(
            "token",
            20,
            {"capacity_factor": 0.6, "batch_priority": False},
            ensemble_size=2,
            num_experts=6,
            num_selected_experts=1,
        ),
        (4, 8, 8, 3),
        1,
        2**28,
    ),
    "e3-priority": (
        config(
            "0",
            24,
            {"capacity_factor": 0.5, "capacity_multiple_of": 1, "batch_priority": True},
            ensemble_size=3,
            num_experts=6,
            num_layers=3,
            layers=[0, 2],
        ),
        (4, 8, 8, 3),
        1,
        2**28,
    ),
}


def main(path: str) -> None:
    found: dict[str, Any] = {}
    for number, (name, (layout, shape, shards, chunk)) in enumerate(CASES.items()):
        random = np.random.default_rng(number)
        images = random.standard_normal(shape).astype(np.float16)
        options = {key: value for key, value in layout.items() if key != "name"}
        options["patch_size"] = tuple(layout["patch_size"])
        kind = getattr(vit_moe, layout["name"], None) or getattr(vit_moe_ensemble, layout["name"])
        model = kind(deterministic=True, **options)
        wide = images.astype(np.float32)
        drawn = model.init(jax.random.PRNGKey(number), wide)["params"]
        leaves, tree = jax.tree_util.tree_flatten(drawn)
        moved = [jnp.asarray(x + 0.3 * random.standard_normal(x.shape), x.dtype) for x in leaves]
        params = tree.unflatten(moved)
        if name == "map":
            params = jax.tree_util.tree_map(lambda x: x.astype(jnp.bfloat16), params)
        used = jax.tree_util.tree_map(lambda x: x.astype(jnp.float32), params)
        logits = model.apply({"params": used}, wide)[0]
        saved = {"params": params, "step": jnp.asarray(7)} if name == "gap" else params
        with tempfile.TemporaryDirectory() as folder:
            partitioned.save_checkpoint(f"{folder}/c", saved, num_shards=shards, max_chunk_bytes=chunk).wait()
            for file in sorted(Path(folder).iterdir()):
                found[f"{name}/{file.name}"] = np.frombuffer(file.read_bytes(), np.uint8)
        found |= {f"{name}/images": images, f"{name}/logits": np.asarray(logits), f"{name}/config": json.dumps(layout)}
    np.savez_compressed(path, **found)


if __name__ == "__main__":
    main(sys.argv[1])
