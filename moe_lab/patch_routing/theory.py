"""The theoretical results of pmoe2023 as numbers: delta, l*, theorems 4.2, 4.3 and 4.5, and lemma K.1.

The bounds are sufficient conditions up to constants that the paper does not state. A single value has no meaning; only
the growth of a bound and the ratio of two bounds can be interpreted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from pydantic import model_validator
from torch import Tensor

from moe_lab.core.config import Config, knob, require
from moe_lab.core.routing import one_hot
from moe_lab.patch_routing.data import SIGNAL, PatternTask
from moe_lab.patch_routing.digits import DigitTask

__all__ = [
    "Kind",
    "Quantity",
    "Separability",
    "Sizes",
    "advantage",
    "bound",
    "closer",
    "delta",
    "l_star",
    "linear_separability",
    "model_complexity",
    "sample_complexity",
]

Kind = Literal["separate", "joint", "cnn"]
Quantity = Literal["samples", "neurons", "batch", "iterations"]
Task = PatternTask | DigitTask

# Exponent of each symbol in the bounds. Common to all models:
_SHARED = {
    "samples": {"p": 12, "delta": 6, "eps": -16},
    "neurons": {"p": 12, "delta": 6, "eps": -16},
    "batch": {"p": 6, "delta": 3, "eps": -8},
    "iterations": {"p": 6, "delta": 3, "eps": -8},
}
# Added by theorems 4.2 (separate), 4.5 (joint) and 4.3 (cnn):
_OWN = {
    "separate": {"samples": {"l": 8}, "neurons": {"l": 10}, "batch": {"l": 4}, "iterations": {"l": 4}},
    "joint": {
        "samples": {"k": 4, "l": 6},
        "neurons": {"k": 3, "n": 2, "l": 6},
        "batch": {"k": 2, "l": 4},
        "iterations": {"k": 2, "l": 2},
    },
    "cnn": {"samples": {"n": 8}, "neurons": {"n": 10}, "batch": {"n": 4}, "iterations": {"n": 4}},
}
# Exponent of c that appendix M adds for c > 2 classes; it does not treat the CNN:
_CLASSES = {
    "separate": {"samples": 12, "neurons": 11, "batch": 6, "iterations": 6},
    "joint": {"samples": 8, "neurons": 8, "batch": 4, "iterations": 4},
}


class Sizes(Config):
    """The quantities on which the bounds depend.

    Raises:
      ConfigError: a value is out of bounds, or l > n.
    """

    patches: int = knob(16, symbol="n", meaning="patches in a sample", ge=1, slider=(4, 64, 1))
    patches_per_expert: int = knob(6, symbol="l", meaning="patches each expert keeps", ge=1, slider=(1, 16, 1))
    experts: int = knob(8, symbol="k", meaning="experts", ge=1, slider=(1, 16, 1))
    pattern_sets: int = knob(1, symbol="p", meaning="sets of irrelevant patterns", ge=1, slider=(1, 512, 1))
    delta: float = knob(1.0, symbol="delta", meaning="how close the patterns are (eq. 9)", ge=1, slider=(1, 10, 0.1))
    error: float = knob(0.1, symbol="eps", meaning="error to reach", gt=0, lt=1, slider=(0.01, 0.5, 0.01))
    classes: int = knob(2, symbol="c", meaning="classes", ge=2, slider=(2, 10, 1))

    @model_validator(mode="after")
    def _patches_suffice(self) -> Self:
        require(
            self.patches_per_expert <= self.patches,
            "patches_per_expert (l) must be at most patches (n)",
            l=self.patches_per_expert,
            n=self.patches,
        )
        return self

    def by_symbol(self) -> dict[str, float]:
        """Returns the values by the paper's symbols, as floats because their powers overflow integers."""
        return {declared.symbol: float(getattr(self, name)) for name, declared in self.knobs().items()}


def delta(delta_d: float | Sequence[float], delta_r: float) -> float:
    """Computes the closeness of the patterns, delta = 1 / (1 - max(delta_d^2, delta_r^2)).

    The paper's text states that delta falls as o_1 and o_2 move apart. That holds for delta_d > 0 only: as a function
    of delta_d^2, delta also grows as delta_d -> -1, where o_1 and o_2 are as far apart as possible.

    >>> delta(0.0, 0.6), delta(0.9, 0.0) == delta(-0.9, 0.0)
    (1.5625, True)

    Args:
      delta_d: <o_1, o_2>; with more than two classes, the inner products of all pairs.
      delta_r: upper bound of |<o_i, q>| over class-irrelevant patterns q.

    Raises:
      ValueError: a delta_d is not in (-1, 1), or delta_r not in [0, 1).

    References: pmoe2023, eq. 9 and appendix M.
    """
    overlaps = [float(value) for value in np.atleast_1d(np.asarray(delta_d, dtype=float))]
    for value in overlaps:
        require(-1 < value < 1, "delta_d must be greater than -1 and less than 1", delta_d=value)
    require(0 <= delta_r < 1, "delta_r must be at least 0 and less than 1", delta_r=delta_r)
    return 1 / (1 - max(delta_r**2, *(value**2 for value in overlaps)))


def bound(quantity: Quantity, kind: Kind, sizes: Sizes) -> float:
    """Computes a bound of theorem 4.2 (separate), 4.5 (joint) or 4.3 (CNN), up to a constant; appendix M for c > 2.

    Args:
      quantity: "samples" (N), "neurons" (m), "batch" (B) or "iterations" (T). N = B T.
      sizes: n, l, k, p, delta, eps, c.

    Raises:
      ValueError: a CNN with more than two classes, which appendix M does not treat.
    """
    values = sizes.by_symbol()
    return float(np.prod([values[symbol] ** power for symbol, power in _powers(quantity, kind, sizes.classes).items()]))


def sample_complexity(kind: Kind, sizes: Sizes) -> float:
    """Computes N, the number of training samples sufficient for error eps, up to a constant (theorems 4.2, 4.3, 4.5).

    >>> sizes = Sizes(patches=16, patches_per_expert=4)
    >>> sample_complexity("cnn", sizes) / sample_complexity("separate", sizes) == (16 / 4) ** 8
    True
    """
    return bound("samples", kind, sizes)


def model_complexity(kind: Kind, sizes: Sizes) -> float:
    """Computes m, the number of neurons sufficient for error eps, up to a constant (theorems 4.2, 4.3, 4.5)."""
    return bound("neurons", kind, sizes)


def advantage(quantity: Quantity, kind: Kind, sizes: Sizes) -> float:
    """Computes the ratio of the CNN's bound to that of a mixture.

    N_C/N_S = (n/l)^8, M_C/M_S = (n/l)^10, N_C/N_J = n^8 / (k^4 l^6).

    Departs from the paper: its text after theorem 4.5 gives M_C/M_J = n^10 / (k^3 l^6), but M_J of the theorem itself
    contains n^2, so that the ratio is n^8 / (k^3 l^6).
    """
    return bound(quantity, "cnn", sizes) / bound(quantity, kind, sizes)


def _powers(quantity: Quantity, kind: Kind, classes: int) -> dict[str, int]:
    known = quantity in _SHARED and kind in _OWN
    rule = f"quantity must be one of {', '.join(_SHARED)}, and kind one of {', '.join(_OWN)}"
    require(known, rule, quantity=quantity, kind=kind)
    powers = {**_OWN[kind][quantity], **_SHARED[quantity]}
    if classes > 2:
        require(kind != "cnn", "there is no bound for a CNN with more than two classes (c)", c=classes)
        powers["c"] = _CLASSES[kind][quantity]
    return powers


def closer(
    patches: Float[Tensor, "*rows d"], class_patterns: Float[Tensor, "c d"], threshold: float
) -> Bool[Tensor, "*rows c"]:
    """Returns the class pattern, if any, that each patch is delta'-closer to: <o_i - o_j, q> > delta' for all j != i.

    Patches are q, class patterns o_1 ... o_c, and the threshold is delta' of section 4.2.
    """
    products = patches @ class_patterns.T.to(patches.dtype)
    largest_two = products.topk(2, dim=-1)
    is_closer = (largest_two.values[..., 0] - largest_two.values[..., 1]) > threshold
    closest = one_hot(largest_two.indices[..., 0], len(class_patterns))
    return closest & is_closer.unsqueeze(-1)


def l_star(
    task: Task, *, samples: int = 500, trial: int = 0, seed: int = 0, threshold: float | None = None, share: float = 1.0
) -> int:
    """Estimates l* from samples: 1 + the largest number of irrelevant patches of a sample that are closer to one class.

    For a PatternTask without noise it equals `task.l_star`. Noise moves patches across the threshold, so that the
    estimate grows with the noise (and, for share=1, with the number of samples).

    Args:
      threshold: delta' (section 4.2). The paper specifies only Theta(1 - delta_d). None uses half the gap of a
        PatternTask (between neutral patterns, at 0, and distractors, at the gap), else half of 1 - delta_d.
      share: the share of samples in which the number is not exceeded; 1 for the definition.
    """
    require(0 < share <= 1, "share must be greater than 0 and at most 1", share=share)
    sampled = task.sample(samples, trials=[trial], seed=seed, dtype=torch.float64)
    patterns = task.signals([trial], seed)[0]
    if threshold is None:
        gap = task.gap if isinstance(task, PatternTask) else 0.0
        overlap = float((patterns @ patterns.T).fill_diagonal_(-1).max())
        threshold = gap / 2 if gap > 0 else (1 - overlap) / 2
    irrelevant = sampled.roles[0] != SIGNAL
    counts = (closer(sampled.patches()[0], patterns, threshold) & irrelevant.unsqueeze(-1)).sum(dim=1).amax(dim=-1)
    ascending = counts.sort().values
    return 1 + int(ascending[int(np.ceil(share * samples)) - 1])


@dataclass(frozen=True)
class Separability:
    """Accuracies of the best of several linear classifiers; 1.0 means that a hyperplane separates the classes."""

    train_accuracy: float
    test_accuracy: float
    features: int
    samples: int


def linear_separability(
    task: Task, *, samples: int = 4000, test_samples: int = 2000, trial: int = 0, seed: int = 0
) -> Separability:
    """Tests lemma K.1, that the data is not linearly separable if l* = Omega(1), with tuned logistic regressions.

    They are fitted to all n d numbers and to the sum of the patches (a hyperplane with the same weights at every
    position, which is optimal in the limit because the signal's position is uniform), each with three strengths of
    regularization. The classifier with the highest held-out accuracy is evaluated.

    Departs from the paper: the lemma as stated fails. Its proof writes every h^(j) as a_j o_1 + b_j o_2, but a
    hyperplane may use all d dimensions: with p < d - 2 pattern sets it can take the same value on all of them, so
    that they cancel and only o_1 or o_2 matters. Measured with d=32 and l*=7: about .6 with p=256, but 1.00 with p=16.
    A classifier that fails proves nothing; the claim `pmoe2023/lemmaK.1` decides it by linear programs.

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
