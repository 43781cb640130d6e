"""V-MoE and E3 written out with NumPy in float64, token by token, and checkpoints of them in the released format.

Nothing here comes from moe_lab: it is the other side of a comparison. Weights are a mapping from the names of released
checkpoints to arrays, configs are mappings in the released layout.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

Weights = dict[str, np.ndarray]
MARK = "__msgpack_array_chunk_a87ca2__"


def forward(config: dict[str, Any], weights: Weights, images: np.ndarray) -> np.ndarray:
    """The logits, (N M, classes)."""
    w = {name: np.asarray(value, np.float64) for name, value in weights.items()}
    (height, width), size = config["patch_size"], config["hidden_size"]
    rows, columns = images.shape[1] // height, images.shape[2] // width
    tokens = []
    for r, c in np.ndindex(rows, columns):
        cut = images[:, r * height : (r + 1) * height, c * width : (c + 1) * width]
        tokens.append(np.einsum("nhwc,hwcd->nd", cut, w["embedding/kernel"]) + w["embedding/bias"])
    x = np.stack(tokens, 1)
    if config["classifier"] == "token":
        x = np.concatenate([np.broadcast_to(w["cls"], (len(x), 1, size)), x], 1)
    x = x + w["Encoder/posembed_input/pos_embedding"]
    encoder, repeated = config["encoder"], False
    mixture = encoder["moe"]
    members = mixture.get("ensemble_size", 1)
    for number in range(encoder["num_layers"]):
        place = f"Encoder/encoderblock_{number}"
        if number in mixture["layers"] and not repeated:
            x, repeated = np.repeat(x, members, 0), True
        y = normalized(w, f"{place}/LayerNorm_0", x)
        x = x + attention(w, f"{place}/SelfAttention", y, y)
        y = normalized(w, f"{place}/LayerNorm_1", x)
        sparse = number in mixture["layers"]
        x = x + (mixed(w, f"{place}/Moe", y, mixture) if sparse else mlp(w, f"{place}/Mlp", y))
    x = normalized(w, "Encoder/encoder_norm", x)
    if config["classifier"] == "map":
        x = attention(w, "MapHead/MultiHeadDotProductAttention", np.repeat(w["MapHead/probe"], len(x), 0), x)
        x = (x + mlp(w, "MapHead/Mlp", normalized(w, "MapHead/LayerNorm", x)))[:, 0]
    else:
        x = x.mean(1) if config["classifier"] == "gap" else x[:, 0]
    if config["representation_size"] is not None:
        x = np.tanh(x @ w["pre_logits/kernel"] + w["pre_logits/bias"])
    return x @ w["head/kernel"] + w["head/bias"] if config["num_classes"] else x


def normalized(w: Weights, place: str, x: np.ndarray) -> np.ndarray:
    mean = x.mean(-1, keepdims=True)
    variance = (x**2).mean(-1, keepdims=True) - mean**2
    return (x - mean) / np.sqrt(variance + 1e-6) * w[f"{place}/scale"] + w[f"{place}/bias"]


def attention(w: Weights, place: str, queries: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    q, k, v = (
        np.einsum("ntd,dhe->nhte", source, w[f"{place}/{name}/kernel"]) + w[f"{place}/{name}/bias"][:, None]
        for name, source in (("query", queries), ("key", tokens), ("value", tokens))
    )
    share = softmax(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]))
    return np.einsum("nhte,hed->ntd", share @ v, w[f"{place}/out/kernel"]) + w[f"{place}/out/bias"]


def mlp(w: Weights, place: str, x: np.ndarray, expert: Any = ...) -> np.ndarray:
    first, second = ([w[f"{place}/Dense_{i}/{name}"][expert] for name in ("kernel", "bias")] for i in (0, 1))
    h = x @ first[0] + first[1]
    h = h / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
    return h @ second[0] + second[1]


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def mixed(w: Weights, place: str, x: np.ndarray, mixture: dict[str, Any]) -> np.ndarray:
    """A mixture, token by token; copies of a token for the members of an ensemble follow each other in a group."""
    members, experts = mixture.get("ensemble_size", 1), mixture["num_experts"]
    router, own = mixture["router"], experts // members
    options, selected, size = router["dispatcher"], router["num_selected_experts"], mixture["group_size"]
    rounded = rounded_to_bfloat16 if options.get("bfloat16", False) else np.asarray
    kernel = w[f"{place}/Router/dense/kernel"].reshape(x.shape[-1], experts)
    order = [(i * members + m, t) for i in range(len(x) // members) for t in range(x.shape[1]) for m in range(members)]
    most, result = places(options, size * selected, experts), np.zeros_like(x)
    for begin in range(0, len(order), size):
        ranked = {}
        for token in order[begin : begin + size]:
            member = token[0] % members
            gates = softmax(x[token] @ kernel[:, member * own : (member + 1) * own])
            ranked[token] = [(gates[e], member * own + e) for e in np.argsort(-gates, kind="stable")[:selected]]
        queue = list(ranked)
        if options.get("batch_priority", False):
            queue.sort(key=lambda token: -ranked[token][0][0])
        taken = [0] * experts
        for choice in range(selected):
            for token in queue:
                gate, expert = ranked[token][choice]
                taken[expert] += 1
                if taken[expert] <= most:
                    result[token] += gate * rounded(mlp(w, f"{place}/Mlp", rounded(x[token]), expert))
    return result


def places(options: dict[str, Any], selections: int, experts: int) -> int:
    """The capacity of an expert."""
    if options.get("capacity"):
        return options["capacity"]
    exact = selections * options["capacity_factor"] / experts
    whole = math.ceil(exact) if options.get("capacity_ceil_or_round", "ceil") == "ceil" else round(exact)
    multiple = options.get("capacity_multiple_of", 4)
    return -(-whole // multiple) * multiple if multiple else whole


def rounded_to_bfloat16(x: np.ndarray) -> np.ndarray:
    """Rounds to 8 significant bits, ties to even."""
    fraction, exponent = np.frexp(x)
    return np.ldexp(np.rint(fraction * 256), exponent - 8)


# --- files ----------------------------------------------------------------------------------------------------------


def write(prefix: Path, weights: Weights, shards: int, rows: int, half: bool) -> None:
    """Writes a checkpoint in which each array lies in chunks of so many rows, spread over the shards in turn.

    Args:
      half: whether numbers are written as bfloat16; the weights must be such numbers.
    """
    tree: dict[str, Any] = {}
    for name, value in weights.items():
        place = tree
        for step in name.split("/")[:-1]:
            place = place.setdefault(step, {})
        place[name.split("/")[-1]] = value
    contents: list[dict[str, Any]] = [{MARK: True} for _ in range(shards)]
    dtype, number, turn = "bfloat16" if half else "float32", 0, 0

    def indexed(node: Any) -> Any:
        nonlocal number, turn
        if isinstance(node, dict):
            return {key: indexed(node[key]) for key in sorted(node)}
        slices, homes = [], []
        for begin in range(0, len(node), rows):
            part = node[begin : begin + rows].astype("<f4")
            bytes_ = (part.view("<u4") >> 16).astype("<u2").tobytes() if half else part.tobytes()
            axes = [(begin, begin + len(part)), *((0, length) for length in node.shape[1:])]
            slices.append(packed([packed([*axis, None]) for axis in axes]))
            homes.append(turn % shards)
            chunk = [msgpack.ExtType(1, packed([[part.size], dtype, bytes_]))]
            contents[homes[-1]].setdefault(str(number), []).append([chunk, msgpack.ExtType(6, slices[-1])])
            turn += 1
        number += 1
        return msgpack.ExtType(8, packed([packed([list(node.shape), dtype, False, {}]), slices, homes]))

    index = {"version": "20220622", "shard_count": shards, "index": indexed(tree)}
    Path(f"{prefix}.index").write_bytes(packed(index))
    for shard, content in enumerate(contents):
        Path(f"{prefix}.data-{shard:05d}-of-{shards:05d}").write_bytes(packed(content))


def packed(value: Any) -> bytes:
    return msgpack.packb(value, use_bin_type=True)
