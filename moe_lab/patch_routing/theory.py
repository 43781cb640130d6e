"""What pmoe2023 proves, as numbers: delta, l*, theorems 4.2, 4.3 and 4.5, table 1, and lemma K.1 tried out.

The bounds are sufficient conditions up to constants that the paper does not give. Their values mean nothing alone: only
how they grow, and the ratio of two of them, can be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import torch
from jaxtyping import Bool, Float
from pydantic import model_validator
from torch import Tensor

from moe_lab.config import Config, knob, require
from moe_lab.patch_routing.data import PatternTask
from moe_lab.patch_routing.digits import DigitTask
from moe_lab.patch_routing.separability import Separability, linear_separability

__all__ = [
    "Kind",
    "Operations",
    "Quantity",
    "Separability",
    "Sizes",
    "advantage",
    "bound",
    "closer",
    "delta",
    "formula",
    "l_star",
    "linear_separability",
    "model_complexity",
    "operations",
    "sample_complexity",
]

Kind = Literal["separate", "joint", "cnn"]
Quantity = Literal["samples", "neurons", "batch", "iterations"]
Task = PatternTask | DigitTask

# Powers of each symbol in the bounds. What all models share:
_SHARED = {
    "samples": {"p": 12, "delta": 6, "eps": -16},
    "neurons": {"p": 12, "delta": 6, "eps": -16},
    "batch": {"p": 6, "delta": 3, "eps": -8},
    "iterations": {"p": 6, "delta": 3, "eps": -8},
}
# What theorems 4.2 (separate), 4.5 (joint) and 4.3 (cnn) add:
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
# The power of c that appendix M adds for c > 2 classes; it says nothing of the CNN:
_CLASSES = {
    "separate": {"samples": 12, "neurons": 11, "batch": 6, "iterations": 6},
    "joint": {"samples": 8, "neurons": 8, "batch": 4, "iterations": 4},
}


class Sizes(Config):
    """What the bounds depend on.

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
    def _experts_find_patches(self) -> Self:
        require(
            self.patches_per_expert <= self.patches,
            "patches_per_expert (l) must be at most patches (n)",
            l=self.patches_per_expert,
            n=self.patches,
        )
        return self

    def by_symbol(self) -> dict[str, float]:
        """The values by the paper's symbols, as floats: their powers leave the range of whole numbers."""
        return {known.symbol: float(getattr(self, name)) for name, known in self.knobs().items()}


def delta(delta_d: float | Sequence[float], delta_r: float) -> float:
    """How close the patterns are: delta = 1 / (1 - max(delta_d^2, delta_r^2)).

    The text says that delta falls as o_1 and o_2 move apart. That holds for delta_d > 0 only: being a function of
    delta_d^2, delta also grows as delta_d -> -1, where o_1 and o_2 are as far apart as can be.

    >>> delta(0.0, 0.6), delta(0.9, 0.0) == delta(-0.9, 0.0)
    (1.5625, True)

    Args:
      delta_d: <o_1, o_2>; with more than two classes, that of every pair.
      delta_r: the bound of |<o_i, q>| over irrelevant patterns q.

    Raises:
      ValueError: a value is not between -1 and 1.

    References: pmoe2023, eq. 9 and appendix M.
    """
    overlaps = [float(value) for value in np.atleast_1d(np.asarray(delta_d, dtype=float))]
    for value in overlaps:
        require(-1 < value < 1, "delta_d must be greater than -1 and less than 1", delta_d=value)
    require(0 <= delta_r < 1, "delta_r must be at least 0 and less than 1", delta_r=delta_r)
    return 1 / (1 - max(delta_r**2, *(value**2 for value in overlaps)))


def bound(quantity: Quantity, kind: Kind, sizes: Sizes) -> float:
    """A bound of theorem 4.2 (separate), 4.5 (joint) or 4.3 (CNN), up to a constant; appendix M's for c > 2.

    Args:
      quantity: "samples" (N), "neurons" (m), "batch" (B) or "iterations" (T). N = B T.
      kind: which model.
      sizes: n, l, k, p, delta, eps, c.

    Raises:
      ValueError: a CNN with more than two classes, of which appendix M says nothing.
    """
    values = sizes.by_symbol()
    return float(np.prod([values[symbol] ** power for symbol, power in _powers(quantity, kind, sizes.classes).items()]))


def sample_complexity(kind: Kind, sizes: Sizes) -> float:
    """N, the training samples that suffice for error eps, up to a constant (theorems 4.2, 4.3, 4.5).

    >>> sizes = Sizes(patches=16, patches_per_expert=4)
    >>> sample_complexity("cnn", sizes) / sample_complexity("separate", sizes) == (16 / 4) ** 8
    True
    """
    return bound("samples", kind, sizes)


def model_complexity(kind: Kind, sizes: Sizes) -> float:
    """m, the neurons that suffice for error eps, up to a constant (theorems 4.2, 4.3, 4.5)."""
    return bound("neurons", kind, sizes)


def advantage(quantity: Quantity, kind: Kind, sizes: Sizes) -> float:
    """The CNN's bound over that of a mixture: how many times less the mixture needs, as far as the bounds tell.

    N_C/N_S = (n/l)^8, M_C/M_S = (n/l)^10, N_C/N_J = n^8 / (k^4 l^6).

    Departs from the paper: its text after theorem 4.5 gives M_C/M_J = n^10 / (k^3 l^6), but M_J of the theorem itself
    holds n^2, so that the ratio is n^8 / (k^3 l^6).
    """
    return bound(quantity, "cnn", sizes) / bound(quantity, kind, sizes)


def formula(quantity: Quantity, kind: Kind, classes: int = 2) -> str:
    """A bound in words that a page can show.

    >>> formula("samples", "joint")
    'k^4 l^6 p^12 delta^6 / eps^16'
    """
    powers = _powers(quantity, kind, classes)
    above = " ".join(f"{symbol}^{power}" for symbol, power in powers.items() if power > 0)
    below = " ".join(f"{symbol}^{-power}" for symbol, power in powers.items() if power < 0)
    return f"{above} / {below}"


def _powers(quantity: Quantity, kind: Kind, classes: int) -> dict[str, int]:
    require(quantity in _SHARED and kind in _OWN, "there is no such bound", quantity=quantity, kind=kind)
    powers = {**_OWN[kind][quantity], **_SHARED[quantity]}
    if classes > 2:
        require(kind != "cnn", "there is no bound for a CNN with more than two classes (c)", c=classes)
        powers["c"] = _CLASSES[kind][quantity]
    return powers


@dataclass(frozen=True)
class Operations:
    """Multiplications of one training step, up to constants, and how many steps reach error eps (table 1)."""

    experts: float
    router_forward: float
    router_backward: float
    iterations: float

    @property
    def per_iteration(self) -> float:
        return self.experts + self.router_forward + self.router_backward

    @property
    def total(self) -> float:
        """Table 1's first row counts the experts alone, the largest term once m l > k n."""
        return self.experts * self.iterations


def operations(kind: Kind, sizes: Sizes, *, batch_size: int, neurons: int, dimension: int) -> Operations:
    """Table 1: B m l d for the experts, B k n d and B k l^2 d for jointly trained routers, B m n d for a CNN.

    The iterations are those of the theorems with p and delta left out, as in the table. A separately trained router is
    frozen while the experts train, so that a step does not count it.

    Args:
      sizes: n, l, k and eps.
      batch_size: B, samples in a step.
      neurons: m, in all experts together.
      dimension: d, numbers in a patch.

    References: pmoe2023, table 1 and appendix N.
    """
    plain = sizes.replace(pattern_sets=1, delta=1.0)
    n, l, k = float(sizes.patches), float(sizes.patches_per_expert), float(sizes.experts)  # noqa: E741 - the paper's l
    width = float(batch_size) * dimension
    joint = kind == "joint"
    return Operations(
        experts=width * neurons * (n if kind == "cnn" else l),
        router_forward=width * k * n if joint else 0.0,
        router_backward=width * k * l**2 if joint else 0.0,
        iterations=bound("iterations", kind, plain),
    )


def closer(
    patches: Float[Tensor, "*rows d"], class_patterns: Float[Tensor, "c d"], threshold: float
) -> Bool[Tensor, "*rows c"]:
    """Which class pattern, if any, each patch is delta'-closer to: <o_i - o_j, q> > delta' for every other j.

    Args:
      patches: q.
      class_patterns: o_1 ... o_c.
      threshold: delta' of section 4.2.
    """
    products = patches @ class_patterns.T.to(patches.dtype)
    best = products.topk(2, dim=-1)
    leads = (best.values[..., 0] - best.values[..., 1]) > threshold
    winner = torch.nn.functional.one_hot(best.indices[..., 0], len(class_patterns)).bool()
    return winner & leads.unsqueeze(-1)


def l_star(
    task: Task, *, samples: int = 500, trial: int = 0, seed: int = 0, threshold: float | None = None, share: float = 1.0
) -> int:
    """l* counted in drawn samples: 1 + the most irrelevant patches of a sample that are closer to one class.

    On a PatternTask without noise it equals `task.l_star`. Noise moves patches across the threshold, so that the
    count grows with it (and, for share=1, with the number of samples).

    Args:
      samples: how many to draw.
      threshold: delta'. The paper says Theta(1 - delta_d) only; None takes half the gap of a PatternTask (between
        neutral patterns, at 0, and distractors, at the gap), else half of 1 - delta_d.
      share: the share of samples that the count must cover; 1 for the definition.

    References: pmoe2023, section 4.2.
    """
    require(0 < share <= 1, "share must be greater than 0 and at most 1", share=share)
    drawn = task.sample(samples, trials=[trial], seed=seed, dtype=torch.float64)
    patterns = task.signals([trial], seed)[0]
    if threshold is None:
        gap = task.gap if isinstance(task, PatternTask) else 0.0
        overlap = float((patterns @ patterns.T).fill_diagonal_(-1).max())
        threshold = gap / 2 if gap > 0 else (1 - overlap) / 2
    irrelevant = drawn.roles[0] != 0
    counts = (closer(drawn.patches()[0], patterns, threshold) & irrelevant.unsqueeze(-1)).sum(dim=1).amax(dim=-1)
    ordered = counts.sort().values
    return 1 + int(ordered[int(np.ceil(share * samples)) - 1])
