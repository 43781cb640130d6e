"""Tests of lemma K.1 of pmoe2023: does a hyperplane separate the classes?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from moe_lab.patch_routing.data import PatternTask
from moe_lab.patch_routing.digits import DigitTask


@dataclass(frozen=True)
class Separability:
    """Accuracies of the best of several linear classifiers; 1.0 means that a hyperplane separates the classes."""

    train_accuracy: float
    test_accuracy: float
    features: int
    samples: int


def linear_separability(
    task: PatternTask | DigitTask, *, samples: int = 4000, test_samples: int = 2000, trial: int = 0, seed: int = 0
) -> Separability:
    """Tests lemma K.1, that the data is not linearly separable if l* = Omega(1), with tuned logistic regressions.

    They are fitted to all n d numbers and to the sum of the patches (a hyperplane with the same weights at every
    position, which is optimal in the limit because the signal's position is uniform), each with three strengths of
    regularization. The classifier with the highest held-out accuracy is evaluated.

    Departs from the paper: the lemma as stated fails. Its proof writes every h^(j) as a_j o_1 + b_j o_2, but a
    hyperplane may use all d dimensions: with p < d - 2 pattern sets it can take the same value on all of them, so
    that they cancel and only o_1 or o_2 matters. Measured with d=32 and l*=7: about .6 with p=256, but 1.00 with p=16.
    `separating_hyperplane` decides it: a classifier that fails proves nothing.

    A fifth of the training samples is held out to choose the regularization.
    """
    train = task.sample(samples, trials=[trial], seed=seed, split="train", dtype=torch.float64)
    test = task.sample(test_samples, trials=[trial], seed=seed, split="test", dtype=torch.float64)
    labels, (x, z) = (train.labels[0], test.labels[0]), (train.patches()[0], test.patches()[0])
    all_numbers = _best_linear(x.flatten(1), z.flatten(1), *labels)
    patch_sums = _best_linear(x.sum(1), z.sum(1), *labels)
    return max(all_numbers, patch_sums, key=lambda result: result[0])[1]


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


def _best_linear(
    train: Float[Tensor, "N features"],
    test: Float[Tensor, "M features"],
    train_labels: Int[Tensor, " N"],
    test_labels: Int[Tensor, " M"],
) -> tuple[float, Separability]:
    """Returns the highest held-out accuracy, and that classifier's accuracies when fitted to all samples."""
    from sklearn.linear_model import LogisticRegression  # here, because importing scikit-learn takes a second
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    X, y, fitted = train.numpy(), train_labels.numpy(), len(train) * 4 // 5
    with threadpool_limits(1):  # matrices this small are slower on many threads
        scores = {}
        for C in (0.1, 10.0, 1000.0):
            classifier = LogisticRegression(C=C, max_iter=5000).fit(X[:fitted], y[:fitted])
            scores[C] = float(classifier.score(X[fitted:], y[fitted:]))
        best = max(scores, key=scores.__getitem__)
        classifier = LogisticRegression(C=best, max_iter=5000).fit(X, y)
    return scores[best], Separability(
        train_accuracy=float(classifier.score(X, y)),
        test_accuracy=float(classifier.score(test.numpy(), test_labels.numpy())),
        features=X.shape[1],
        samples=len(X),
    )
