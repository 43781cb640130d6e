"""Pruning a checkpoint on disk: its time, and the memory that it takes besides the libraries (on Linux).

300 MB in shards of 100 MB; with MOE_LAB_THOROUGH=1 it is 2 GB in shards of 500 MB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file

from benchmarks.measure import Result

MB = 10**6
HIDDEN, EXPERTS = 512, 8
SIZES = (2000, 500) if os.environ.get("MOE_LAB_THOROUGH") == "1" else (300, 100)
CRITERIA = {"routers": "router-norm-change", "neurons": "neuron-magnitude-change"}

_CHILD = """
import json, sys, time
from pathlib import Path
from moe_lab_hub import prune_checkpoint
from transformers import AutoConfig
def held(name):
    told = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in told if line.startswith(name))
after, base, out, criterion = sys.argv[1:]
AutoConfig.from_pretrained(after)
Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
start, began = held("VmRSS"), time.process_time()
prune_checkpoint(after, out, base, criterion)
print(json.dumps([held("VmHWM") - start, time.process_time() - began]))
"""


def run(tiny: bool = False) -> list[Result]:
    size, shard = (50, 25) if tiny else SIZES
    results = []
    with tempfile.TemporaryDirectory() as folder:
        after, base, out = (Path(folder) / name for name in ("after", "base", "out"))
        for path, seed in ((after, 0), (base, 1)):
            checkpoint(path, size * MB, shard * MB, seed)
        largest = max(path.stat().st_size for path in after.glob("*.safetensors"))
        for name, criterion in CRITERIA.items():
            child = [sys.executable, "-c", _CHILD, str(after), str(base), str(out / name), criterion]
            answer = subprocess.run(child, stdout=subprocess.PIPE, text=True, check=True).stdout
            peak, seconds = json.loads(answer.splitlines()[-1])
            note = f"{size} MB of bfloat16 in shards of {largest / MB:.0f} MB, half of the experts"
            limit = largest / MB + 200
            results.append(Result(f"prune_checkpoint_{name}_memory", peak / MB, "MB", limit, note=note))
            results.append(Result(f"prune_checkpoint_{name}", seconds, "CPU s", note=note))
    return results


def checkpoint(folder: Path, size: int, shard: int, seed: int) -> None:
    """Writes a Mixtral checkpoint of about so many bytes, as it is published: one tensor for each expert's matrix."""
    from transformers import MixtralConfig

    inner = 7 * HIDDEN // 2
    layer = EXPERTS * 3 * HIDDEN * inner * 2  # bytes
    layers = max(1, size // layer)
    config = MixtralConfig(
        vocab_size=64,
        hidden_size=HIDDEN,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=8,
        num_local_experts=EXPERTS,
    )
    config.save_pretrained(folder)
    draw = torch.Generator().manual_seed(seed)
    index: dict[str, str] = {}
    held: dict[str, torch.Tensor] = {}
    for name, shape in _shapes(layers, inner):
        held[name] = torch.randn(shape, generator=draw).to(torch.bfloat16)
        last = name == f"model.layers.{layers - 1}.block_sparse_moe.gate.weight"
        if last or sum(tensor.nbytes for tensor in held.values()) >= shard:
            file = f"model-{len(set(index.values())):05}.safetensors"
            save_file(held, folder / file, metadata={"format": "pt"})
            index.update(dict.fromkeys(held, file))
            held = {}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))


def _shapes(layers: int, inner: int) -> list[tuple[str, tuple[int, int]]]:
    """The names and shapes of all tensors of experts and routers; a pruning asks for no others."""
    found = []
    for layer in range(layers):
        block = f"model.layers.{layer}.block_sparse_moe"
        for expert in range(EXPERTS):
            found += [(f"{block}.experts.{expert}.{name}.weight", (inner, HIDDEN)) for name in ("w1", "w3")]
            found.append((f"{block}.experts.{expert}.w2.weight", (HIDDEN, inner)))
        found.append((f"{block}.gate.weight", (EXPERTS, HIDDEN)))
    return found
