"""Figures 4 to 6 of pruning2024 in kind, on a V-MoE that is trained here: accuracy after pruning, and what it saves.

Each is one call that returns a labelled Dataset, which `plots` draws. A Dataset records in `.attrs["call"]` how
to make it again.

What the default run shows (five trials, ten digits, .898 whole, pruned silently by the change of the router's norm):

- It beats random pruning by 1 to 3 points of accuracy at every number of experts, as in the paper.
- Three of eight experts go for 1 point (.887), half of them for 3 (.867). In the paper half go for 1.
- It is no "upper bound to all the other methods" (section 5.2.1): the neuron norm is as good.
- Each mixture is pruned by itself, as in the paper. Where both are ranked together (`deep.prune(..., together=True)`,
  four trials), the second one's experts go first: 8 and 4 stay of 16, for 1.3 points less; from half of them on both
  ways are equal.
- Rerouted tokens lose more: .830 with half of the experts, .736 with a quarter, where silent pruning has .841.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import xarray as xr

from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.origins import call_of, listed, origin
from moe_lab.core.saliency import CRITERIA
from moe_lab.vision.vmoe.config import VMoEConfig
from moe_lab.vision.vmoe.costs import MEASURED, pruning_costs
from moe_lab.vision.vmoe.digits import DigitTask
from moe_lab.vision.vmoe.named import NAMED
from moe_lab.vision.vmoe.pretrained import PRE_TRAINING, pretrained
from moe_lab.vision.vmoe.table import MODES, PAPER_CRITERIA, PruningTable
from moe_lab.vision.vmoe.training import DigitRun, fine_tune

__all__ = ["PUBLISHED_SAVINGS", "costs", "deep_pruning"]

PUBLISHED_SAVINGS = {"parameters": 0.60, "operations": 0.40, "milliseconds": 0.40}
"""What pruning 6 of 8 experts saves of V-MoE B/16 (section 1 and figures 6 and 10)."""


@checked
def deep_pruning(
    trials: int = 5,
    seed: int = 0,
    classes: int = 10,
    steps: int = 300,
    criteria: str | Sequence[str] | None = None,
    modes: str | Sequence[str] = MODES,
    pruned: int | Sequence[int] | None = None,
    *,
    pre_training: DigitRun = PRE_TRAINING,
    folder: Path | str | None = None,
    **more: Any,
) -> xr.Dataset:
    """Figures 4b and 5 in kind: accuracy after pruning without further fine-tuning, by criterion and mode.

    A tiny V-MoE, pre-trained on upright digits, is fine-tuned on upside-down ones in each trial, and then pruned by
    every criterion. Trials differ in the batches of fine-tuning, in its noise, and in the random criterion.

    Args:
      trials: independent fine-tunings.
      seed: of all streams.
      classes: digits to tell apart.
      steps: of fine-tuning.
      criteria: names in `saliency.CRITERIA`, one or several; those of the paper when None.
      modes: "silent", "rerouted" or both.
      pruned: how many of the experts of each mixture go, one number or several; as many as possible when None.
      pre_training: which model to start from; trained at first use, then taken from the cache.
      folder: of the cache; None for the user's.
      more: other parameters of `DigitRun`.

    Returns:
      accuracy(trial, criterion, mode, pruned), score, rank and received as in `PruningTable`, and remaining(pruned).

    Raises:
      ConfigError, ValueError: a wrong value, before anything trains.
      RuntimeError: a training diverged.
    """
    names, ways = listed(PAPER_CRITERIA if criteria is None else criteria), listed(modes)
    counts = None if pruned is None else [int(count) for count in listed(pruned)]
    require(trials >= 1, "trials must be at least 1", trials=trials)
    require(set(names) <= set(CRITERIA), f"criteria must be among {', '.join(CRITERIA)}", criteria=names)
    require(set(ways) <= set(MODES), "modes must be silent or rerouted", modes=ways)
    task = DigitTask(classes=classes, upside_down=True)
    runs = [DigitRun(task=task, steps=steps, trial=trial, seed=seed, **more) for trial in range(trials)]
    before, tables = pretrained(pre_training, folder), []
    for run in runs:
        after = fine_tune(before, run)
        how: dict[str, Any] = {"criteria": names, "modes": ways, "pruned": counts, "seed": seed + run.trial}
        tables.append(PruningTable(before, after, run.test, run.validation, **how).complete())
    data = tables[0].copy()
    for name in ("accuracy", "score", "rank", "received"):
        data[name] = xr.concat([table[name] for table in tables], dim="trial", join="override")
    arguments = {"trials": trials, "seed": seed, "classes": classes, "steps": steps, "criteria": criteria, **more}
    arguments |= {"modes": ways, "pruned": counts}
    config = [run.model_dump(mode="json") for run in (pre_training, *runs)]
    paper = "pruning2024, figures 4b and 5 in kind"
    call = call_of("figures_pruning.deep_pruning", arguments)
    data.attrs = origin(call=call, config=config, seed=seed, device="cpu", paper=paper)
    return data.assign_coords(trial=range(trials))


@checked
def costs(
    size: str | VMoEConfig = "layer",
    experts_kept: Sequence[int] = (8, 6, 4, 2),
    modes: str | Sequence[str] = MODES,
    repeats: int = 5,
    seed: int = 0,
) -> xr.Dataset:
    """Figures 6 and 10 in kind: what pruning saves of parameters, operations and measured time, on random weights.

    Args:
      size: "layer" for one block of D=256 and F=1024, measured in a second; "b16" for V-MoE B/16, which takes 3 GB and
        a minute; or any config.
      experts_kept: experts that each mixture keeps.
      modes: "silent", "rerouted" or both.
      repeats: measurements of each model.
      seed: of the weights and images.

    Returns:
      As `vmoe.costs.pruning_costs`.

    Raises:
      ValueError: a wrong value.
    """
    known = not isinstance(size, str) or size == "layer" or size in NAMED
    require(known, f"size must be layer, {', '.join(NAMED)} or a VMoEConfig", size=size)
    require(repeats >= 1, "repeats must be at least 1", repeats=repeats)
    config = size if isinstance(size, VMoEConfig) else MEASURED if size == "layer" else NAMED[size]
    data = pruning_costs(config, experts_kept, listed(modes), repeats, seed)
    arguments = {"size": size, "experts_kept": tuple(experts_kept), "modes": listed(modes)}
    call = call_of("figures_pruning.costs", arguments | {"repeats": repeats, "seed": seed})
    paper = "pruning2024, figures 6 and 10 in kind"
    data.attrs = origin(call=call, config=config.model_dump(mode="json"), seed=seed, device="cpu", paper=paper)
    return data
