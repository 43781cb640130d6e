"""Measurements behind pmoe2023's claims beyond the room's figures: grid points, routers, bounds, hyperplanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
import xarray as xr
from torch.utils.flop_counter import FlopCounterMode

from moe_lab.core.snapshots import final
from moe_lab.patch_routing import CNN, JointMoE, PatternTask, SeparateMoE, figures, theory, train
from moe_lab.patch_routing.fixed import FixedRules, fixed_step, router_direction
from moe_lab.patch_routing.grid_points import make_task
from moe_lab.patch_routing.model import PatchModel
from moe_lab.patch_routing.recipes import trained_as
from moe_lab_papers.pmoe2023.hyperplanes import separating_hyperplane
from moe_lab_papers.pmoe2023.operations import operations

Cell = tuple[str, int, int, int]
"""Kind of model, N, k and l; k is read for joint training only, l not for the CNN. "cnn-4" is the authors' CNN."""

LEANING = {"distractors": 4, "gap": 0.7, "delta_d": 0.5, "noise": 0.0}
"""Patterns whose distractors lean further to a class, by .7, than o_1 is from o_2, 1 - delta_d = .5: each of them is
routed before o, so that l* = 5 is needed and not only sufficient."""


def name_of(cell: Cell) -> str:
    """Returns the label of a grid point in the coordinate `cell`."""
    kind, samples, experts, per_expert = cell
    own = {"joint": f", k={experts}, l={per_expert}", "separate": f", l={per_expert}"}.get(kind, "")
    return f"{kind}, N={samples}{own}"


def cells(
    source: str,
    cells: Sequence[Cell],
    trials: int,
    seed: int = 0,
    *,
    recipe: Literal["paper", "authors"] = "paper",
    root: str | None = None,
    device: str = "auto",
    **settings: Any,
) -> xr.Dataset:
    """Trains single grid points of figures 4, 6, 7 and 9 as the figures do, and counts epochs and operations.

    Args:
      source: "digits", "mnist" (with root) or "patterns".
      recipe: "authors" trains as the authors' code does (see `figures.authors`).
      cells: models and numbers of samples; the grid points of a trial share its data.
      trials, seed, device: as for the figures.
      root: a folder of MNIST IDX files.
      settings: other parameters of `moe_lab.patch_routing.PatchRun`.

    Returns:
      test_accuracy, epochs and operations (cell, trial), and largest_gate (cell, trial, class), NaN for the CNN. Epochs
      are those until zero training error (at most 150), operations the multiplications of table 1 in them over B d.
    """
    parts = []
    for cell in cells:
        _, samples, experts, per_expert = cell
        task, of_run = trained_as(recipe, make_task(source, root=root))
        model = _model(cell, recipe, source)
        run = {"samples": samples, "trials": trials, "seed": seed, "device": device, "measure": "last"}
        end = final(train(model, task, **{**run, **of_run, **settings}))
        steps = end.steps.astype(float)
        sizes = theory.Sizes(patches=task.patches, patches_per_expert=per_expert, experts=experts)
        how: dict[str, Any] = {"batch_size": 1, "neurons": model.neurons, "dimension": 1}
        step = operations(model.name, sizes, **how).per_iteration  # type: ignore[arg-type]
        gates = end["largest_gate"] if "largest_gate" in end.values else np.full((trials, task.classes), np.nan)
        parts.append(
            xr.Dataset(
                {
                    "test_accuracy": ("trial", end["test_accuracy"]),
                    "epochs": ("trial", steps / np.ceil(samples / model.batch_size)),
                    "operations": ("trial", steps * step),
                    "largest_gate": (("trial", "class"), gates),
                },
                {"cell": name_of(cell), "class": [f"o{number + 1}" for number in range(task.classes)]},
            )
        )
    return xr.concat(parts, "cell", coords="minimal", compat="override", join="exact")


def _model(cell: Cell, recipe: Literal["paper", "authors"], source: str) -> PatchModel:
    """The model of a grid point, with the step size and the batch of its recipe."""
    kind, _, experts, per_expert = cell
    name = "authors" if recipe == "authors" else source
    how: dict[str, Any] = {
        "batch_size": figures.RECIPES[name].batch_size,
        "learning_rate": figures.RECIPES[name].learning_rate,
        "recipe": recipe,
    }
    if kind == "joint":
        return JointMoE(experts=experts, patches_per_expert=per_expert, **how)
    if kind == "separate":
        return SeparateMoE(patches_per_expert=per_expert, **how)
    return CNN(neurons=4 if kind == "cnn-4" else 40, **how)


def accuracy_by_knob(
    knob: str,
    values: Sequence[float],
    samples: int,
    trials: int,
    seed: int = 0,
    *,
    task: Mapping[str, Any] | None = None,
    device: str = "auto",
    **settings: Any,
) -> xr.Dataset:
    """Computes the test accuracy of the three models on patterns of which one property is varied.

    Args:
      knob: a parameter of PatternTask, such as "patches" or "delta_d".
      values: its values.
      samples, trials, seed, device: as for figure 4.
      task: other parameters of PatternTask.
      settings: other parameters of figure 4, such as epochs.

    Returns:
      test_accuracy(knob, model, trial).
    """
    found = [
        figures.sample_complexity(
            task=PatternTask(**{**(task or {}), knob: value}),
            samples=(samples,),
            trials=trials,
            seed=seed,
            device=device,
            **settings,
        )["test_accuracy"].sel(samples=samples, drop=True)
        for value in values
    ]
    return xr.concat(found, xr.Variable(knob, list(values))).to_dataset(name="test_accuracy")


def error_by_size(
    pattern_sets: Sequence[int],
    samples: Sequence[int],
    trials: int,
    seed: int = 0,
    *,
    device: str = "auto",
    **settings: Any,
) -> xr.Dataset:
    """Computes the test error of separate training and of the CNN on patterns of which p differs, from N samples.

    Args:
      pattern_sets: values of p.
      samples: values of N.
      trials, seed, device: as for figure 4.
      settings: other parameters of `moe_lab.patch_routing.PatchRun`.

    Returns:
      test_error(model, pattern_sets, samples, trial).
    """
    models = {"separate": SeparateMoE(), "cnn": CNN()}
    run: dict[str, Any] = {"trials": trials, "seed": seed, "device": device, "measure": "last", **settings}
    errors = [
        [
            [1 - final(train(model, PatternTask(pattern_sets=p), samples=n, **run))["test_accuracy"] for n in samples]
            for p in pattern_sets
        ]
        for model in models.values()
    ]
    coords = {"model": list(models), "pattern_sets": list(pattern_sets), "samples": list(samples)}
    return xr.Dataset({"test_error": ((*coords, "trial"), np.array(errors))}, {**coords, "trial": range(trials)})


def separate_routers(
    patches_per_expert: Sequence[int],
    samples: Sequence[int],
    trials: int,
    seed: int = 0,
    *,
    classes: int = 2,
    device: str = "auto",
) -> xr.Dataset:
    """Computes figure 8 on the patterns of `LEANING`, for lemma 4.1 and appendix M.1."""
    task = PatternTask(**LEANING, classes=classes, pattern_sets=256)
    given: dict[str, Any] = {"patches_per_expert": patches_per_expert, "samples": samples}
    return figures.separate_routers(task=task, trials=trials, seed=seed, device=device, **given)


def kept_patches(samples: int, trials: int, seed: int = 0, *, device: str = "auto") -> xr.Dataset:
    """Counts the patches of each role that separately trained routers keep at l = l*, on the patterns of `LEANING`.

    An expert always keeps l patches. Where a sample has fewer that are closer to the expert's class than to the other,
    far ones fill the places that are left.

    Returns:
      Means over test samples: kept(trial, expert, role), and displaced(trial, expert), the closer patches that the
      expert does not keep, so that far ones have their places; and coverage(trial) of the routers.
    """
    task = PatternTask(**LEANING)
    model = SeparateMoE(patches_per_expert=task.l_star)
    run: dict[str, Any] = {"samples": samples, "trials": trials, "seed": seed, "device": device}
    end = final(train(model, task, epochs=1, measure="last", test_samples=1000, **run))
    sides = task.sample(1000, trials=range(trials), seed=seed, split="test").sides.numpy()  # (T, N, n)
    closer = np.stack([(sides == expert).sum(2).mean(1) for expert in range(task.classes)], axis=1)
    kept = xr.DataArray(end["expert_load"], {"role": list(end.coords["role"])}, ("trial", "expert", "role"))
    displaced = closer - kept.sel(role=["signal", "distractor"]).sum("role")
    return xr.Dataset({"kept": kept, "displaced": displaced, "coverage": ("trial", end["coverage"].min(axis=1))})


def router_gradient(samples: Sequence[int], trials: int, seed: int = 0) -> xr.Dataset:
    """Compares the gradient of the routers' loss over N samples with its expectation (o_1 - o_2)/2 (lemma E.1).

    Returns:
      error(samples, trial), the norm of the difference; cosine(samples, trial) between both; power(trial), the slope
      of log error against log N.
    """
    task, most = PatternTask(), max(samples)
    o_1, o_2 = task.class_patterns()
    expected = (o_1 - o_2) / 2
    error, cosine = np.empty((2, len(samples), trials))
    for trial in range(trials):
        sampled = task.sample(most, trials=[trial], seed=seed, dtype=torch.float64)
        sums = sampled.patches().sum(2)
        for row, count in enumerate(samples):
            found = router_direction(sums[:, :count], sampled.labels[:, :count], 2)[0, 0]
            error[row, trial] = float((found - expected).norm())
            cosine[row, trial] = float(torch.cosine_similarity(found, expected, dim=0))
    power = np.polyfit(np.log(samples), np.log(error), 1)[0]
    curves = {"error": (("samples", "trial"), error), "cosine": (("samples", "trial"), cosine)}
    return xr.Dataset({**curves, "power": ("trial", power)}, {"samples": list(samples)})


def separability(pattern_sets: Sequence[int], samples: int, trials: int, seed: int = 0) -> xr.Dataset:
    """Decides by linear programs whether a hyperplane separates the classes, l* = 7, d = 32, p sets (lemma K.1).

    Returns:
      separable(pattern_sets, trial): 1 where a hyperplane separates a sample and every sample that permutes its
      patches, 0 where a certificate proves that none does.
    """
    found = [
        [
            separating_hyperplane(PatternTask(pattern_sets=count, distractors=6, noise=0.0), samples, trial, seed)
            for trial in range(trials)
        ]
        for count in pattern_sets
    ]
    separable = [[float(one.separable) for one in row] for row in found]
    return xr.Dataset({"separable": (("pattern_sets", "trial"), separable)}, {"pattern_sets": list(pattern_sets)})


def bounds(patches: int, patches_per_expert: int, experts: int, neurons: int) -> xr.Dataset:
    """Computes the ratios of theorems 4.2, 4.3 and 4.5 and of table 1 at given sizes; nothing is random.

    Returns:
      advantage(quantity, kind), the CNN's bound over the mixture's; error_power(symbol), how the error that N samples
      allow grows with k and l in joint training; total(kind) and whole(kind), the CNN's operations until error eps over
      the mixture's, as table 1 counts them and with the routers' counted too; delta(delta_d) of eq. 9 without
      irrelevant patterns.
    """
    sizes = theory.Sizes(patches=patches, patches_per_expert=patches_per_expert, experts=experts)
    kinds: tuple[theory.Kind, ...] = ("separate", "joint")
    quantities: tuple[theory.Quantity, ...] = ("samples", "neurons")
    cost = {kind: operations(kind, sizes, batch_size=1, neurons=neurons, dimension=1) for kind in (*kinds, "cnn")}
    whole = {kind: each.per_iteration * each.iterations for kind, each in cost.items()}

    def power(**change: int) -> float:
        """d log eps / d log of the changed size, at fixed N: -(d log N / d log size) / (d log N / d log eps)."""
        smaller = theory.sample_complexity("joint", sizes)
        by_size = np.log2(theory.sample_complexity("joint", sizes.replace(**change)) / smaller)
        by_error = np.log2(theory.sample_complexity("joint", sizes.replace(error=2 * sizes.error)) / smaller)
        return float(-by_size / by_error)

    overlaps = [-0.8, 0.0, 0.8]
    return xr.Dataset(
        {
            "advantage": (
                ("quantity", "kind"),
                [[theory.advantage(quantity, kind, sizes) for kind in kinds] for quantity in quantities],
            ),
            "error_power": ("symbol", [power(experts=2 * experts), power(patches_per_expert=2 * patches_per_expert)]),
            "total": ("kind", [cost["cnn"].total / cost[kind].total for kind in kinds]),
            "whole": ("kind", [whole["cnn"] / whole[kind] for kind in kinds]),
            "delta": ("delta_d", [theory.delta(overlap, 0.0) for overlap in overlaps]),
        },
        {"quantity": list(quantities), "kind": list(kinds), "symbol": ["k", "l"], "delta_d": overlaps},
    )


def step_operations(patches: int, patches_per_expert: int, neurons: int) -> xr.Dataset:
    """Counts the operations of one actual step of separate training and of the CNN.

    Returns:
      operations(kind), multiplications and additions of the matrix products of forward and backward pass.
    """
    counted = []
    for experts, per_expert in ((2, patches_per_expert), (1, patches)):
        share, batch, dimension = neurons // experts, 20, 64
        weights, inputs = (
            torch.randn(1, experts, share, dimension),
            torch.randn(1, experts, per_expert, batch, dimension),
        )
        rules = FixedRules(torch.randn(1, neurons, 1) / per_expert, None, torch.ones(1, 1, 1))
        with FlopCounterMode(display=False) as counter:
            fixed_step(weights, inputs, torch.arange(batch)[None] % 2, rules)
        counted.append(float(counter.get_total_flops()))
    return xr.Dataset({"operations": ("kind", counted)}, {"kind": ["separate", "cnn"]})
