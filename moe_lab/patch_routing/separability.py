"""Lemma K.1 of pmoe2023 tried out: does a hyperplane separate the classes?"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from moe_lab.patch_routing.data import PatternTask
from moe_lab.patch_routing.digits import DigitTask


@dataclass(frozen=True)
class Separability:
    """How well the best of several linear classifiers did; 1.0 means that a hyperplane separates the classes."""

    train_accuracy: float
    test_accuracy: float
    features: int
    samples: int


def linear_separability(
    task: PatternTask | DigitTask, *, samples: int = 4000, test_samples: int = 2000, trial: int = 0, seed: int = 0
) -> Separability:
    """Tries lemma K.1, that the data is not linearly separable as long as l* = Omega(1), with a well-kept classifier.

    Logistic regression, on all n d numbers and on the sum of the patches (a hyperplane with the same weights at every
    place, which is the best one in the limit because the signal's place is uniform), each at three strengths of
    regularization; the best on held-out samples is scored.

    Departs from the paper: the lemma as stated fails. Its proof writes every h^(j) as a_j o_1 + b_j o_2, but a
    hyperplane may use all d dimensions: with p < d - 2 pattern sets it can take the same value on all of them, so
    that they cancel and only o_1 or o_2 decides. Measured with d=32 and l*=7: about .6 with p=256, but 1.00 with p=16.

    Args:
      samples: to train on; a fifth of them is held out to choose the strength.
      test_samples: to score on.

    Raises:
      ValueError: samples is not a positive multiple of the number of classes.
    """
    train = task.sample(samples, trials=[trial], seed=seed, split="train", dtype=torch.float64)
    test = task.sample(test_samples, trials=[trial], seed=seed, split="test", dtype=torch.float64)
    whole = _best_linear(train.patches()[0].flatten(1), test.patches()[0].flatten(1), train.labels[0], test.labels[0])
    summed = _best_linear(train.patches()[0].sum(1), test.patches()[0].sum(1), train.labels[0], test.labels[0])
    return max(whole, summed, key=lambda found: found[0])[1]


def _best_linear(
    train: Float[Tensor, "N features"],
    test: Float[Tensor, "M features"],
    labels: Int[Tensor, " N"],
    known: Int[Tensor, " M"],
) -> tuple[float, Separability]:
    """The held-out accuracy of the best strength, and how that classifier does when trained on all samples."""
    from sklearn.linear_model import LogisticRegression  # here, because importing scikit-learn takes a second
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    inputs, outputs, fit = train.numpy(), labels.numpy(), len(train) * 4 // 5
    with threadpool_limits(1):  # matrices this small are slower on many threads
        scored = []
        for strength in (0.1, 10.0, 1000.0):
            part = LogisticRegression(C=strength, max_iter=5000).fit(inputs[:fit], outputs[:fit])
            scored.append((part.score(inputs[fit:], outputs[fit:]), strength))
        held_out, strength = max(scored, key=lambda pair: pair[0])
        whole = LogisticRegression(C=strength, max_iter=5000).fit(inputs, outputs)
    return float(held_out), Separability(
        train_accuracy=float(whole.score(inputs, outputs)),
        test_accuracy=float(whole.score(test.numpy(), known.numpy())),
        features=inputs.shape[1],
        samples=len(inputs),
    )
