"""Measurements behind pruning2024's claims about vision models: built at real size, trained tiny, and released."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import xarray as xr
from torch.nn import functional

from moe_lab.core.config import require
from moe_lab.datasets import cifar
from moe_lab_papers.pruning2024 import vmoe
from moe_lab_papers.pruning2024.vmoe import VMoE
from moe_lab_papers.pruning2024.vmoe.config import VMoEConfig
from moe_lab_papers.pruning2024.vmoe.named import NAMED

OURS = "router-norm-change"
_OWN = ("bytes", "operations")


def built() -> xr.Dataset:
    """Counts V-MoE B/16 and E3 S/32 with 8 and with 2 of 8 experts in each mixture; no weights are drawn.

    Returns:
      bytes(model, kept) of the parameters, and operations(model, kept) of an image, with the experts' buffers as the
      released models have them, pruned silently.
    """
    kept = (8, 2)
    counts = np.empty((len(_OWN), len(NAMED), len(kept)))
    with torch.device("meta"):
        for row, config in enumerate(NAMED.values()):
            each = config.num_experts // config.members
            for column, count in enumerate(kept):
                first = [m * each + e for m in range(config.members) for e in range(count // config.members)]
                left = (tuple(first),) * len(config.layers) if count < config.num_experts else ()
                found = vmoe.costs(VMoE(config.replace(kept=left)))
                counts[:, row, column] = [getattr(found, name) for name in _OWN]
    values = {name: (("model", "kept"), part) for name, part in zip(_OWN, counts, strict=True)}
    return xr.Dataset(values, {"model": list(NAMED), "kept": list(kept)})


def timed(model: str, blocks: int, repeats: int, seed: int = 0) -> xr.Dataset:
    """Measures the time of an image with 8 and with 2 of 8 experts, on random weights of the real width.

    Args:
      model: a name in `NAMED`.
      blocks: how many of the first blocks; the experts' share of the time is nearly the same in any pair of V-MoE's.
      repeats: measurements of each.
      seed: of weights.

    Returns:
      milliseconds(kept, repeat), CPU time on one thread, pruned silently. Eight images are routed together.
    """
    config = NAMED[model]
    layers = tuple(layer for layer in config.layers if layer < blocks)
    together = 8 * config.positions * config.members
    config = config.replace(num_layers=blocks, layers=layers, group_size=together)
    found = vmoe.pruning_costs(config, (8, 2), ("silent",), repeats, seed)
    return found[["milliseconds"]].sel(mode="silent", drop=True)


def tiny(
    trials: int,
    seed: int = 0,
    *,
    steps: int = 300,
    batch: int = 100,
    test_images: int = 500,
    pre_training: vmoe.DigitRun = vmoe.PRE_TRAINING,
    folder: Path | str | None = None,
) -> xr.Dataset:
    """Fine-tunes a tiny V-MoE on upside-down digits, prunes it silently, and fine-tunes the smallest one again.

    Args:
      trials: independent fine-tunings.
      seed: of all streams but those of the pre-training.
      steps, batch, test_images: of `DigitRun`; fine-tuning after pruning takes as many steps.
      pre_training: which model to start from; trained at first use, then taken from the cache.
      folder: of the cache; None for the user's.

    Returns:
      accuracy(trial, criterion, pruned) without fine-tuning after pruning; and, pruned by the change of the router's
      norm, again(trial), with it, of as few experts as can be, and alone(trial, block), without it, where half of the
      experts of one mixture go.
    """
    before, tables, again, alone = vmoe.pretrained(pre_training, folder), [], [], []
    for trial in range(trials):
        run = vmoe.DigitRun(steps=steps, batch=batch, test_images=test_images, trial=trial, seed=seed)
        after = vmoe.fine_tune(before, run)
        how = {"modes": ("silent",), "seed": seed + trial}
        table = vmoe.PruningTable(before, after, run.test, run.validation, **how).complete()  # type: ignore[arg-type]
        tables.append(table["accuracy"].sel(mode="silent", drop=True))
        smallest = vmoe.prune(before, after, OURS, int(table["pruned"].max())).model
        again.append(vmoe.accuracy(vmoe.fine_tune(smallest, run), run.test))
        blocks, half = sorted(after.config.layers), after.config.num_experts // 2
        halved = [vmoe.prune(before, after, OURS, half, [block]).model for block in blocks]
        alone.append([vmoe.accuracy(model, run.test) for model in halved])
    data = xr.concat(tables, "trial", join="override").to_dataset(name="accuracy").drop_vars("block", errors="ignore")
    data = data.assign(again=("trial", again), alone=(("trial", "block"), alone))
    return data.assign_coords(trial=range(trials), block=blocks)


def released(
    config: str | VMoEConfig,
    start: str,
    end: str,
    data: str,
    pruned: Sequence[int],
    criteria: Sequence[str],
    batches: int,
    seed: int = 0,
    *,
    root: str,
    whole: Sequence[int] = (),
    side: int = 128,
) -> xr.Dataset:
    """Prunes a released model silently, without further fine-tuning, and tests it on CIFAR's test images.

    Args:
      config: of the model, or its name.
      start, end: prefixes of the checkpoints before and after fine-tuning.
      data: "cifar-10" or "cifar-100".
      pruned: how many experts of each mixture go; in E3, of each member.
      criteria: those that need no data.
      batches: of test images, each of as many as are routed together; all whole ones if there are fewer.
      seed: of the random criterion.
      root: a folder of both checkpoints and of CIFAR's binary version, or of its archive.
      whole: blocks whose experts all stay.
      side: of the images that the model was fine-tuned on, in pixels.

    Returns:
      accuracy(criterion, pruned).

    Raises:
      ValueError: the files are damaged, or there are too few images.
      FileNotFoundError: a file is missing.
    """
    before, after = (VMoE.from_checkpoint(Path(root) / prefix, config) for prefix in (start, end))
    images = cifar.load(root, name=data)
    rows, size = np.flatnonzero(images.is_test), after.config.images_per_batch
    require(len(rows) >= size, "test images must fill a batch", images=len(rows), batch=size)
    rows = rows[: min(batches, len(rows) // size) * size]
    layers = [layer for layer in after.config.layers if layer not in whole]
    accuracy = np.empty((len(criteria), len(pruned)))
    for place in np.ndindex(accuracy.shape):
        count = pruned[place[1]]
        kept = vmoe.prune(before, after, criteria[place[0]], count, layers, seed=seed).model if count else after
        right = [
            _right(kept, images.images[rows[first : first + size]], images.labels[rows[first : first + size]], side)
            for first in range(0, len(rows), size)
        ]
        accuracy[place] = sum(right) / len(rows)
    coords = {"criterion": list(criteria), "pruned": list(pruned)}
    return xr.Dataset({"accuracy": (("criterion", "pruned"), accuracy)}, coords)


def _right(model: VMoE, images: np.ndarray, labels: np.ndarray, side: int) -> int:
    """How many of the images, (N, 3, 32, 32) from 0 to 255, a model recognises, enlarged and from -1 to 1."""
    scaled = torch.from_numpy(images).float() / 127.5 - 1
    enlarged = functional.interpolate(scaled, size=(side, side), mode="bilinear", align_corners=False)
    test = vmoe.Labelled(enlarged.permute(0, 2, 3, 1), torch.from_numpy(labels.astype(np.int64)))
    with torch.inference_mode():
        return round(vmoe.accuracy(model, test) * len(labels))
