"""Measurements behind chen2022's statements on linear experts and on ensembles; nothing is trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import xarray as xr

from moe_lab.core.trials import stream
from moe_lab.specialization import ClusterTask, embedding, theory
from moe_lab.specialization.theory_single import PatchFunction
from moe_lab_papers.chen2022.measures import random_function

FIGURE_1 = "figure 1"


def linear_mixture(settings: Sequence[int | str], trials: int, samples: int, seed: int = 0) -> xr.Dataset:
    """Tests the mixture of K linear experts whose filters are the label signals, and whose routers are the centers.

    Expert k has the sum of <v_k, x^(p)> over patches, and router k that of <c_k, x^(p)>. Nothing is trained.

    Args:
      settings: 1 to 4, or `FIGURE_1`.
      samples: of the test.

    Returns:
      test_accuracy and routed, the share of samples that reach the expert of their cluster, over (setting, trial).
    """
    found = np.empty((2, len(settings), trials))
    for row, setting in enumerate(settings):
        task = ClusterTask(**embedding.RANGES) if setting == FIGURE_1 else ClusterTask.setting(int(setting))
        for trial in range(trials):
            sampled = task.sample(samples, trials=[trial], seed=seed, split="test", dtype=torch.float64)
            scores = sampled.patches()[0].sum(1) @ sampled.signals[0].T  # (N, 2 K): label signals, then centers
            chosen = scores[:, task.clusters :].argmax(1)
            answers = scores.gather(1, chosen[:, None])[:, 0]
            right, own = answers.sign() == sampled.labels[0], chosen == sampled.clusters[0]
            found[:, row, trial] = float(right.double().mean()), float(own.double().mean())
    names, coords = ("test_accuracy", "routed"), {"setting": [str(setting) for setting in settings]}
    return xr.Dataset({name: (("setting", "trial"), part) for name, part in zip(names, found, strict=True)}, coords)


def ensembles(sizes: Sequence[int], trials: int, samples: int, seed: int = 0) -> xr.Dataset:
    """Computes theorem 4.1's test error of the mean of several single experts in setting 3.

    Each expert is the classifier that attains the bound of an eighth, plus a random function of a patch.

    Returns:
      single(trial), the mean error of the largest ensemble's experts by themselves, and ensemble(size, trial).
    """
    task, error = ClusterTask.setting(3), np.empty((len(sizes), trials))
    alone = np.empty(trials)
    how: dict[str, Any] = {"samples": samples, "seed": seed}
    for trial in range(trials):
        best = theory.tight_classifier(task.signals([trial], seed)[0])
        generator = stream(seed, trial, "an ensemble")
        parts = [random_function(generator, task.dimension) for _ in range(max(sizes))]
        functions = [_mean((best, part)) for part in parts]
        errors = [theory.theorem_4_1(f, task, trial=trial, **how).numbers["test error"] for f in functions]
        alone[trial] = np.mean(errors)
        for row, size in enumerate(sizes):
            together = theory.theorem_4_1(_mean(functions[:size]), task, trial=trial, **how)
            error[row, trial] = together.numbers["test error"]
    return xr.Dataset({"ensemble": (("size", "trial"), error), "single": ("trial", alone)}, {"size": list(sizes)})


def _mean(functions: Sequence[PatchFunction]) -> PatchFunction:
    return lambda patches: torch.stack([f(patches) for f in functions]).mean(0)
