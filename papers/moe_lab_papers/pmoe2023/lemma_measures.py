"""Measurements behind pmoe2023's claims about its lemmas, router samples, and figure 6 on MNIST."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import xarray as xr

from moe_lab.core.snapshots import final
from moe_lab.patch_routing import JointMoE, PatternTask, SeparateMoE, figures, initialization, theory, train
from moe_lab.patch_routing.fixed import router_direction, train_routers
from moe_lab.patch_routing.grid_points import make_task
from moe_lab.patch_routing.recipes import trained_as
from moe_lab_papers.pmoe2023 import theory_steps
from moe_lab_papers.pmoe2023.measures import LEANING

_KINDS: tuple[theory.Kind, ...] = ("separate", "joint", "cnn")
_READINGS = ("shared", "each", "authors")
_PER_EXPERT, _A_TENTH = 6, 0.1
_RATES = {"separate": 0.002, "joint": 0.05, "cnn": 0.002}  # a step of joint training is smaller by its gates


def lemma_steps(
    neurons: Sequence[int], trials: int, seed: int = 0, *, steps: int = 8, samples: int = 600, batch_size: int = 1000
) -> xr.Dataset:
    """Observes small steps of the three trainings (lemmas G.1 to G.4, H.1 to H.4 and I.1 to I.4).

    Returns:
      Over (model, neurons, trial): falls, the share of the steps in which the expected loss falls by eta m gamma^3 v^2
      / l^2 or more, with gamma = 1 / (p sqrt(delta)) (n in place of l for the CNN); predicted, the share in which it
      falls by `Steps.predicted`, up to a tenth; hidden, the same where hidden weights alone take the steps; along, the
      mean of `Steps.along`; changed, the largest share of changed neurons over what the lemma allows; large, the
      smallest share of neurons with a large expected pseudo-gradient over what the lemma requires.
    """
    task = PatternTask(noise=0.0, pattern_sets=16)
    names = ("falls", "predicted", "hidden", "along", "changed", "large")
    found = np.empty((len(_KINDS), len(neurons), trials, len(names)))
    for place, kind in enumerate(_KINDS):
        rate, per_expert = _RATES[kind], task.patches if kind == "cnn" else _PER_EXPERT
        how: dict[str, Any] = {"steps": steps, "samples": samples, "batch_size": batch_size, "seed": seed}
        for column, count in enumerate(neurons):
            for trial in range(trials):
                seen = theory_steps.small_steps(
                    kind, task, neurons=count, trial=trial, learning_rate=rate, patches_per_expert=_PER_EXPERT, **how
                )
                fall, hidden = -np.diff(seen.loss), seen.loss[:-1] - seen.hidden_loss
                stated = rate * count * seen.required**3 * (seen.error[:-1] / per_expert) ** 2
                found[place, column, trial] = (
                    (fall >= stated).mean(),
                    (abs(fall / seen.predicted - 1) <= _A_TENTH).mean(),
                    (abs(hidden / seen.predicted - 1) <= _A_TENTH).mean(),
                    seen.along.mean(),
                    (seen.changed[1:] / seen.allowed[1:]).max(),
                    seen.large.min() / seen.required,
                )
    axes = ("model", "neurons", "trial")
    values = {name: (axes, found[..., number]) for number, name in enumerate(names)}
    return xr.Dataset(values, {"model": list(_KINDS), "neurons": list(neurons)})


def decrease_by_patches(trials: int, seed: int = 0, *, neurons: int = 200, samples: int = 400) -> xr.Dataset:
    """Fits how the decrease in a first step depends on l, or on n for the CNN (lemmas G.4, H.4 and I.4).

    The decrease is that by hidden weights, for which the lemmas account, over eta m v^2.

    Returns:
      power(model, trial), the slope of its logarithm against log l for l = 5, 8 and 12 of 16 patches, and against log n
      for n = 8, 12 and 16.
    """
    found = np.empty((len(_KINDS), trials))
    for place, kind in enumerate(_KINDS):
        sizes = (8, 12, 16) if kind == "cnn" else (5, 8, 12)
        for trial in range(trials):
            falls = []
            for size in sizes:
                task = PatternTask(noise=0.0, pattern_sets=16, patches=size if kind == "cnn" else 16)
                how: dict[str, Any] = {"neurons": neurons, "samples": samples, "batch_size": samples, "seed": seed}
                seen = theory_steps.small_steps(
                    kind, task, steps=1, trial=trial, learning_rate=_RATES[kind], patches_per_expert=size, **how
                )
                falls.append((seen.loss[0] - seen.hidden_loss[0]) / seen.error[0] ** 2)
            found[place, trial] = np.polyfit(np.log(sizes), np.log(falls), 1)[0]
    return xr.Dataset({"power": (("model", "trial"), found)}, {"model": list(_KINDS)})


def router_lemmas(samples: int, trials: int, seed: int = 0) -> xr.Dataset:
    """Tests lemmas E.2 and E.3 on the patterns of `LEANING`, with samples without noise.

    Returns:
      first(trial), the longest first router times n^2, from sigma_r of eq. 7 with its log n; above(trial), the share of
      test samples in which the trained router of the label's class ranks o above every patch that is not
      (1 - delta_d)/2-closer to a class.
    """
    task = PatternTask(**LEANING)
    n, patterns = task.patches, task.class_patterns()
    first, above = [], []
    for trial in range(trials):
        drawn = task.sample(samples, trials=[trial], seed=seed, dtype=torch.float64)
        routers = initialization.initial_routers([trial], seed, 2, n, task.dimension)[0] / np.log(n)
        sums, labels = drawn.patches().sum(2), drawn.labels
        direction = router_direction(sums, labels, 2)
        settings = {"epochs": 100, "samples": samples, "batch_size": 20}
        trained = train_routers(routers[None], direction, **settings, learning_rate=1 / n)[0]
        test = task.sample(1000, trials=[trial], seed=seed, split="test", dtype=torch.float64)
        scores = torch.einsum("bnd,bd->bn", test.patches()[0], trained[test.labels[0]])
        near = theory.closer(test.patches()[0], patterns, (1 - task.delta_d) / 2).any(-1)
        own = scores.gather(1, test.signal[0][:, None])
        others = (~near).scatter(1, test.signal[0][:, None], value=False)
        above.append(float(((scores < own) | ~others).all(1).double().mean()))
        first.append(float(routers.norm(dim=1).max()) * n**2)
    return xr.Dataset({"first": ("trial", first), "above": ("trial", above)})


def router_samples(
    counts: Sequence[int], samples: int, trials: int, seed: int = 0, *, device: str = "auto"
) -> xr.Dataset:
    """Trains experts on N samples of patterns behind routers that N_r of them have trained (algorithm 1).

    Returns:
      test_accuracy(router_samples, trial) and coverage(router_samples, trial), of the worst class.
    """
    task, recipe = PatternTask(), figures.RECIPES["patterns"]
    how: dict[str, Any] = {"batch_size": recipe.batch_size, "learning_rate": recipe.learning_rate}
    run: dict[str, Any] = {"samples": samples, "trials": trials, "seed": seed, "device": device, "measure": "last"}
    ends = [final(train(SeparateMoE(router_samples=count, **how), task, **run)) for count in counts]
    values = {"test_accuracy": [end["test_accuracy"] for end in ends]}
    values["coverage"] = [end["coverage"].min(-1) for end in ends]
    axes = ("router_samples", "trial")
    return xr.Dataset({name: (axes, part) for name, part in values.items()}, {"router_samples": list(counts)})


def error_by_experts(
    experts: Sequence[int],
    samples: int,
    trials: int,
    seed: int = 0,
    *,
    source: str = "mnist",
    root: str | None = None,
    device: str = "auto",
    **settings: Any,
) -> xr.Dataset:
    """Computes figure 6 under three readings of what it keeps fixed.

    Returns:
      test_error(reading, experts, trial): "shared" divides m = 40 neurons among the experts, "each" gives 5 to each, as
      joint training has elsewhere in section 5.1, so that m = 5 k; "authors" is "each" as the authors' code trains.
    """
    run: dict[str, Any] = {"samples": samples, "trials": trials, "seed": seed, "device": device, "measure": "last"}
    run |= settings
    errors = []
    for reading in _READINGS:
        whose = "authors" if reading == "authors" else "paper"
        task, of_run = trained_as(whose, make_task(source, root=root))
        recipe = figures.RECIPES[whose if whose == "authors" else source]
        how: dict[str, Any] = {"batch_size": recipe.batch_size, "learning_rate": recipe.learning_rate, "recipe": whose}
        sized = [JointMoE(neurons=40 if reading == "shared" else 5 * k, experts=k, **how) for k in experts]
        errors.append([1 - final(train(model, task, **{**of_run, **run}))["test_accuracy"] for model in sized])
    axes = ("reading", "experts", "trial")
    return xr.Dataset({"test_error": (axes, errors)}, {"reading": list(_READINGS), "experts": list(experts)})
