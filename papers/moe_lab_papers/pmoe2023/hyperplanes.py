"""Lemma K.1 of pmoe2023 decided on samples: a hyperplane that separates the classes, or a proof that there is none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float

from moe_lab.patch_routing import DigitTask, PatternTask


@dataclass(frozen=True)
class Hyperplane:
    """A hyperplane that separates two classes of points, or the proof that there is none.

    Attributes:
      separable: whether a hyperplane separates the classes.
      weights: (d + 1,) the last for a constant, with y <w, x> >= 1 for every point; None where there is none.
      certificate: (N,) shares of the points, at least 0 and of sum 1 in each class, whose weighted mean is the same in
        both classes, so that no hyperplane has it on one side only (Farkas); None where a hyperplane separates them.
      gap: the largest difference between the two means of the certificate; by how much the least margin falls short
        of 1, at most, for a hyperplane.
    """

    separable: bool
    weights: Float[np.ndarray, " numbers"] | None
    certificate: Float[np.ndarray, " N"] | None
    gap: float


def separating_hyperplane(
    task: PatternTask | DigitTask, samples: int = 1000, trial: int = 0, seed: int = 0
) -> Hyperplane:
    """Decides lemma K.1 on a sample: finds a hyperplane that separates the classes, or proves that there is none.

    Only sums of patches are looked at, which loses nothing. Signals stand at a uniform position, so that a hyperplane
    of the distribution separates every permutation of a sample's patches. So does the mean of its weights over the
    permutations, which is the same at every position. Where no hyperplane of sums separates the sample, no hyperplane
    of all n d numbers separates the distribution.
    """
    sampled = task.sample(samples, trials=[trial], seed=seed, split="train", dtype=torch.float64)
    return divided(sampled.patches()[0].sum(1).numpy(), sampled.labels[0].numpy() > 0)


def divided(points: Float[np.ndarray, "N d"], positive: Bool[np.ndarray, " N"]) -> Hyperplane:
    """Separates points of two classes by a linear program; where that fails, by Farkas, a second one proves it.

    Raises:
      RuntimeError: the solver reaches neither.
    """
    from scipy.optimize import linprog  # the checks of exercises import this module, and use no solver

    signed = np.where(positive, 1.0, -1.0)[:, None] * np.column_stack((points, np.ones(len(points))))
    free = linprog(np.zeros(signed.shape[1]), A_ub=-signed, b_ub=-np.ones(len(signed)), bounds=(None, None))
    if free.status == 0:
        return Hyperplane(True, free.x, None, max(0.0, 1 - float((signed @ free.x).min())))
    # the constant's row makes the sums of both classes' shares alike, the last row sets them to 1
    balance, total = np.vstack((signed.T, positive)), np.append(np.zeros(signed.shape[1]), 1.0)
    proof = linprog(np.zeros(len(signed)), A_eq=balance, b_eq=total, bounds=(0, None))
    if proof.status != 0:
        raise RuntimeError(f"the solver finds neither a hyperplane nor a proof that there is none: got {proof.message}")
    return Hyperplane(False, None, proof.x, float(np.abs(balance @ proof.x - total).max()))
