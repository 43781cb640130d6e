"""A test of lemma K.1 of pmoe2023: does a hyperplane separate the classes?"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
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

    A fifth of the training samples is held out to choose the regularization.
    """
    train = task.sample(samples, trials=[trial], seed=seed, split="train", dtype=torch.float64)
    test = task.sample(test_samples, trials=[trial], seed=seed, split="test", dtype=torch.float64)
    labels, (x, z) = (train.labels[0], test.labels[0]), (train.patches()[0], test.patches()[0])
    all_numbers = _best_linear(x.flatten(1), z.flatten(1), *labels)
    patch_sums = _best_linear(x.sum(1), z.sum(1), *labels)
    return max(all_numbers, patch_sums, key=lambda result: result[0])[1]


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
