"""Checks of notebook 02: alignment, coverage and the gradient of routers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from moe_lab.core import routing
from moe_lab.exercises.cases import Case, one_only
from moe_lab.exercises.verdict import Verdict, judge


def check_alignment(alignment: object) -> Verdict:
    """Checks `alignment(routers, signals) -> (k, c)`: the cosine of every router with every class pattern."""
    generator = np.random.default_rng(6)
    cases = [
        _alignment_case("for w = (2, 0), (3, 3) and o = (1, 0), (0, 3)", [[2.0, 0], [3, 3]], [[1.0, 0], [0, 3]]),
        _alignment_case(
            "for random routers and patterns", generator.normal(size=(3, 5)), generator.normal(size=(2, 5))
        ),
    ]
    praise = "The length of a router does not matter to its direction; it matters to how sharp its gates are."
    formula = "cosine of w_s and o_c = <w_s, o_c> / (|w_s| |o_c|)"
    return judge("alignment", alignment, cases, praise, formula)


def _alignment_case(about: str, routers: Any, signals: Any) -> Case:
    w, o = np.array(routers), np.array(signals)
    products = w @ o.T
    long_w, long_o = np.linalg.norm(w, axis=1, keepdims=True), np.linalg.norm(o, axis=1)
    right = products / long_w / long_o
    mistakes = {
        "You return inner products: divide by the length of the router and of the pattern.": products,
        "You divide by the length of the patterns only: the routers have lengths too.": products / long_o,
        "You divide by the length of the routers only: the patterns have lengths too.": products / long_w,
        "Your result is transposed: one row for each router, one column for each class.": right.T,
        "You lost the sign: a router that points away from o has cosine -1.": np.abs(right),
        "You divide by the squared lengths: take the square root.": products / long_w**2 / long_o**2,
        "You divide by the length of the whole matrix: every row has a length of its own (axis=1).": (
            products / np.linalg.norm(w) / np.linalg.norm(o)
        ),
        "You take lengths along the wrong axis: a router is a row, and so is a pattern (axis=1).": (
            _along_columns(_along_columns(products.T, w), o).T
        ),
        "You take lengths of columns: a router is a row, and so is a pattern (axis=1).": (
            _along_columns(_along_columns(products, w).T, o).T
        ),
    }
    return Case((w, o), right, about, mistakes)


def _along_columns(products: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Divides row s by the length of column s of `w`; NaN where there are not as many columns as rows."""
    lengths = np.linalg.norm(w, axis=0)
    return products / lengths[:, None] if len(products) == len(lengths) else np.nan * products


def check_coverage(coverage: object) -> Verdict:
    """Checks `coverage(kept, signal, labels) -> (c,)`: the share of a class's samples whose o the best expert keeps.

    kept is (experts, samples, patches) bool, signal (samples,) the place of o, labels (samples,) 0 ... c-1.
    """
    generator = np.random.default_rng(7)
    # Of class 0's four samples expert 1 catches o in two and expert 2 in three; expert 3 catches one of class 1's two.
    small = np.zeros((3, 6, 3), dtype=bool)
    small[0, [0, 3], 0] = small[1, [0, 1, 2], 0] = small[2, 4, 0] = True
    small[..., 1] = True
    small_labels = np.array([0, 0, 0, 0, 1, 1])
    scores = torch.from_numpy(generator.normal(size=(3, 40, 6)))
    large = routing.top_mask(scores, 2).numpy()
    places, labels = generator.integers(0, 6, 40), np.arange(40) % 2
    cases = [
        _coverage_case("in a case of 6 samples", small, np.zeros(6, dtype=int), small_labels),
        _coverage_case("in a case of 40 samples", large, places, labels),
    ]
    praise = "One expert must catch the pattern in all samples: half each by two experts is not alignment."
    formula = "coverage of class c = max over s of (1 / N_c) sum over i in class c of kept[s, i, signal[i]]"
    return judge("coverage", coverage, cases, praise, formula)


def _coverage_case(about: str, kept: np.ndarray, signal: np.ndarray, labels: np.ndarray) -> Case:
    caught = kept[:, np.arange(len(labels)), signal]  # (experts, samples)
    member = labels == np.arange(labels.max() + 1)[:, None]  # (classes, samples)
    sizes = member.sum(1)
    shares = caught @ member.T.astype(float) / sizes  # (experts, classes)
    mistakes = {
        "You count a sample when any expert catches o: choose one expert for the class, the one that catches o most "
        "often.": (member & caught.any(0)).sum(1) / sizes,
        "You average over the experts: take the best one of each class.": shares.mean(0),
        "You return every expert's share: take the best one of each class.": shares,
        "You divide by all samples: the share is of the samples of the class.": shares.max(0) * sizes / len(labels),
        "You count samples: divide by the number of samples of the class.": shares.max(0) * sizes,
        "You do not separate the classes: one number for each class, from its own samples.": caught.mean(1).max(),
        "You count all kept patches: look at the place of o only, signal[i] for sample i.": (
            (kept.mean(-1) @ member.T / sizes).max(0)
        ),
        "You take one expert for all classes: each class has its own best expert.": shares[shares.mean(1).argmax()],
        "You add up the experts: take the best one of each class.": shares.sum(0),
        "You take the worst expert of each class: take the best one.": shares.min(0),
        **one_only("expert", shares[0], shares[-1]),
    }
    return Case((kept, signal, labels), shares.max(0), about, mistakes)


def check_router_gradient(router_gradient: object) -> Verdict:
    """Checks `router_gradient(patches, router, neurons, outputs, count, y, v) -> (d,)` of one expert (eq. 26).

    One sample. Shapes: patches (n, d), router (d,), neurons (m/k, d), outputs (m/k,). y is +1 or -1, and v =
    1/(1 + exp(y f)) is given, so that the other experts need not be known.
    """
    generator = np.random.default_rng(8)

    def sample(n: int, d: int, r: int) -> list[np.ndarray]:
        return [generator.normal(size=shape) for shape in ((n, d), (d,), (r, d), (r,))]

    cases = [
        _gradient_case("with n=4, l=2, y=+1", *sample(4, 3, 2), count=2, y=1, v=0.4),
        _gradient_case("with n=6, l=4, y=-1", *sample(6, 5, 3), count=4, y=-1, v=0.7),
        _gradient_case("with l=1", *sample(5, 3, 2), count=1, y=1, v=0.5),
    ]
    praise = "A patch pulls its router when it adds more to y f than the others do. With l=1 nothing pulls: exactly 0."
    formula = (
        "-y v times the sum over the kept patches of G_j (S_j - mean S) x_j, with S_j = sum_r (a_r / l) "
        "ReLU(<w_r, x_j>) and mean S = sum of G_j S_j"
    )
    return judge("router_gradient", router_gradient, cases, praise, formula)


def _gradient_case(
    about: str, patches: Any, router: Any, neurons: Any, outputs: Any, *, count: int, y: int, v: float
) -> Case:
    """Computes the right answer by autograd through eq. 1, and the mistakes from slips in eq. 26."""
    variable = torch.from_numpy(router).requires_grad_()
    tensor = torch.from_numpy(patches)
    mask, gates = routing.expert_choice((tensor @ variable)[None, None, None], count)
    active = (torch.from_numpy(neurons) @ tensor.T).clamp_min(0)
    f = (torch.from_numpy(outputs) / count * (active * gates[0, 0]).sum(-1)).sum()
    (slope,) = torch.autograd.grad(f, variable)
    right = -y * v * slope.numpy()

    kept, g = mask.numpy().ravel(), gates.detach().numpy().ravel()
    every = torch.from_numpy(patches @ router).softmax(-1).numpy()
    s = outputs @ active.numpy() / count

    def formula(outer: np.ndarray, inner: np.ndarray, slopes: np.ndarray = s) -> np.ndarray:
        """-y v times the sum over j and i of slopes_j outer_j inner_i (x_j - x_i)"""
        return -y * v * np.einsum("j,i,jid->d", slopes * outer, inner, patches[:, None] - patches[None])

    parts = -y * v * (g * (s - g @ s))[:, None] * patches
    first, *_, last = np.flatnonzero(kept) if count > 1 else 2 * [int(kept.argmax())]
    mistakes = {
        "Your sign is wrong: the gradient is minus the pull, so it carries -y.": -right,
        "You left out y: for y = -1 the pull changes its sign.": right * y,
        "You left out v: the slope of the logistic loss, which is small on samples that are already right.": right / v,
        "You left out 1/l.": right * count,
        "You take the plain mean of S: each patch counts in it by its gate.": (
            -y * v * (g * (s - s[kept].mean())) @ patches
        ),
        "You left out the gates of the other patches: they count in the sum over i by G_i.": formula(g, kept),
        "Your softmax is over all patches: gates and sums run over the kept patches only.": formula(every, every),
        "You hold the gates fixed: a router moves f through its gates only.": -y * v * (s * g) @ patches,
        "You left out the output weights a.": formula(g, g, active.numpy().sum(0) / count),
        "You left out the ReLU.": formula(g, g, outputs @ (neurons @ patches.T) / count),
        "You take the mean over the patches: eq. 26 adds them up.": right / count,
        **one_only("kept patch", parts[first], parts[last]),
    }
    return Case((patches, router, neurons, outputs, count, y, v), right, about, mistakes)
