"""Checkpoints in the format of the released ones, of models with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgpack

from moe_lab_papers.pruning2024.vmoe import VMoE
from tests.vmoe.test_released import MARK, entry, pack, part, slices


def checkpoint(prefix: Path, model: VMoE) -> Path:
    """Writes a model as one shard, each array in one chunk."""
    tree: dict[str, Any] = {}
    for name, parameter in model.state_dict().items():
        *above, last = name.split(".")
        place = tree
        for step in above:
            place = place.setdefault(step, {})
        place[last] = parameter.numpy()
    shard: dict[str, Any] = {MARK: True}

    def indexed(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: indexed(node[key]) for key in sorted(node)}
        place = slices(*((0, length) for length in node.shape))
        shard[str(len(shard) - 1)] = [[[part(node)], msgpack.ExtType(6, place)]]
        return entry(list(node.shape), "float32", [place], [0])

    index = {"version": "20220622", "shard_count": 1, "index": indexed(tree)}
    Path(f"{prefix}.index").write_bytes(pack(index))
    Path(f"{prefix}.data-00000-of-00001").write_bytes(pack(shard))
    return prefix
