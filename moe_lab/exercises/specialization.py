"""Checks of notebook 04: the experts' step, the dispatch entropy, the limit of one expert, and the output."""

from __future__ import annotations

from typing import Any

import numpy as np

from moe_lab.exercises.cases import Case, one_only
from moe_lab.exercises.verdict import Verdict, judge


def check_expert_step(expert_step: object) -> Verdict:
    """Checks `expert_step(filters, gradient, learning_rate) -> (M, J, d)`: eq. 3.4, with equal step lengths."""
    generator = np.random.default_rng(11)
    small = np.array([[[3.0, 0.0], [0.0, 4.0]], [[0.0, 0.6], [0.8, 0.0]]])
    idle = generator.normal(size=(4, 2, 3))
    idle[2] = 0
    cases = [
        _step_case("for 2 experts with gradients of length 5 and 1", 0.5, np.ones((2, 2, 2)), small),
        _step_case("for 3 random experts", 0.01, *generator.normal(size=(2, 3, 4, 5))),
        _step_case("where expert 3 got no sample", 0.1, generator.normal(size=(4, 2, 3)), idle),
    ]
    praise = "Every expert moves equally far, however few samples it got: nobody is left behind for being unpopular."
    idle_hint = "An expert without samples has a gradient of 0, and 0/0 is not a number: it must stay where it is."
    formula = "W_m - learning_rate gradient_m / |gradient_m|, with |.| over all numbers of expert m"
    return judge("expert_step", expert_step, cases, praise, formula, not_finite=idle_hint)


def _step_case(about: str, rate: float, filters: Any, gradient: Any) -> Case:
    def over(axes: tuple[int, ...] | None) -> np.ndarray:
        length = np.sqrt((gradient**2).sum(axis=axes, keepdims=True))
        return rate * gradient / np.where(length > 0, length, 1)

    right = filters - over((1, 2))
    squared = (gradient**2).sum(axis=(1, 2), keepdims=True)
    mistakes = {
        "You divide by the length of the whole gradient: each expert's part has a length of its own.": filters
        - over(None),
        "You divide by the length of each filter: one length an expert, over all its filters (the Frobenius norm).": (
            filters - over((2,))
        ),
        "You walk uphill: subtract the gradient.": filters + over((1, 2)),
        "You divide by the squared length: take the square root.": filters
        - rate * gradient / np.where(squared > 0, squared, 1),
        "This is a plain gradient step: divide by the length of each expert's gradient.": filters - rate * gradient,
        "You return the step: return the filters after it.": -over((1, 2)),
        "You return the step, uphill: return the filters after it, minus the step.": over((1, 2)),
        "You left out the learning rate.": filters - over((1, 2)) / rate,
        "You divide by the sum of the absolute values: the length is the root of the sum of squares.": filters
        - rate * gradient / np.maximum(np.abs(gradient).sum(axis=(1, 2), keepdims=True), 1e-300),
        "The first expert alone has moved: does your function return inside its loop?": np.vstack(
            (right[:1], filters[1:])
        ),
        "The last expert alone has moved: all of them move.": np.vstack((filters[:-1], right[-1:])),
    }
    return Case((filters, gradient, rate), right, about, mistakes)


def check_dispatch_entropy(dispatch_entropy: object) -> Verdict:
    """Checks `dispatch_entropy(dispatch) -> float`: eq. 6.1 in nats, of (K, M) counts: samples of k sent to m."""
    uneven = np.random.default_rng(12).integers(1, 60, size=(4, 6)).astype(float)
    cases = [
        _entropy_case("for 3 clusters and 4 experts", [[6, 0, 2, 1], [2, 4, 2, 1], [0, 1, 1, 5]]),
        _entropy_case("for 4 clusters and 6 experts", uneven),
        _entropy_case("where each expert serves one cluster", [[5, 0, 0, 1], [0, 7, 0, 0], [0, 0, 2, 0]]),
        _entropy_case("where one expert is idle", [[3, 0, 1, 0], [1, 0, 3, 9]]),
    ]
    praise = "0 means that each expert serves one cluster, log K that nobody specialises. It says nothing of accuracy."
    idle = "An expert without samples gives 0/0, and a cluster that it never sees log 0: both count as 0."
    formula = "-(1/n) sum over m and k of n_km log(n_km / n_m), with n_m the samples of expert m"
    return judge("dispatch_entropy", dispatch_entropy, cases, praise, formula, not_finite=idle)


def _entropy_case(about: str, counts: Any) -> Case:
    dispatch = np.array(counts, dtype=float)
    total = dispatch.sum()

    def surprise(shares: np.ndarray) -> np.ndarray:
        return -shares * np.log(np.where(shares > 0, shares, 1))

    def shares(axis: int) -> np.ndarray:
        sums = dispatch.sum(axis, keepdims=True)
        return np.asarray(dispatch / np.where(sums > 0, sums, 1))

    load = dispatch.sum(0) / total
    each = surprise(shares(0)).sum(0)  # the entropy of each expert's clusters
    right = float(load @ each)
    by_cluster = float(dispatch.sum(1) / total @ surprise(shares(1)).sum(1))
    mistakes = {
        "Your axes are exchanged: this is how each cluster spreads over the experts. Eq. 6.1 asks which clusters each "
        "expert gets.": by_cluster,
        "This is in bits: take the natural logarithm.": right / np.log(2),
        "You took log10: take the natural logarithm.": right / np.log(10),
        "You lost the minus sign: log of a share is negative.": -right,
        "You weigh all experts alike: weigh each by its share of the samples, so that idle ones do not count.": float(
            each.mean()
        ),
        "You add up the experts' entropies: weigh each by its share of the samples.": float(each.sum()),
        "You average over the experts in use: weigh each by its share of the samples.": float(each[load > 0].mean()),
        "This is the entropy of the experts' loads: it tells nothing of the clusters.": float(surprise(load).sum()),
        "This is the entropy of all cells: the shares are of what each expert gets.": float(
            surprise(dispatch / total).sum()
        ),
        "You divide by log K: eq. 6.1 does not.": right / np.log(len(dispatch)),
        "You forgot to divide by the number of samples.": right * total,
        "You return one number an expert: weigh them by the experts' shares of the samples and add up.": each,
        **one_only("expert", load[0] * each[0], load[-1] * each[-1]),
    }
    return Case((dispatch,), right, about, mistakes)


def check_error_share(error_share: object) -> Verdict:
    """Checks `error_share(plus, minus, center) -> float`: the share of all (k, k', y, epsilon) with y F(x) <= 0.

    plus[k] = f(alpha v_k), minus[k] = f(-alpha v_k) and center[k] = f(beta c_k), where alpha = gamma is a constant and
    f is 0 on noise; F(x) = f(y alpha v_k) + f(beta c_k) + f(epsilon alpha v_k'), k' != k.
    """
    generator = np.random.default_rng(92)
    three = [1, 1, 2], [-1, -2, -1], [-1.5, 1, -1.5]
    powers = 3.0 ** -np.arange(1, 5)
    cases = [
        _share_case("for plus (1, 1, 2), minus (-1, -2, -1), center (-1.5, 1, -1.5)", *three),
        _share_case("for 3 random clusters", *generator.normal(size=(3, 3))),
        _share_case("for 9 random clusters", *generator.normal(size=(3, 9))),
        _share_case("for an f that is 0 everywhere", [0, 0, 0], [0, 0, 0], [0, 0, 0]),
        _share_case("for f(+-v_k) = +-(2 - 3^-k), f(c_k) = 1.5 3^-k", 2 - powers, powers - 2, 1.5 * powers),
    ]
    praise = "The last case has 1/8, and theorem 4.1 says that no f at all has less. Try to beat it."
    formula = (
        "the mean over y, epsilon, k and k' != k of [y (f(y alpha v_k) + f(beta c_k) + f(epsilon alpha v_k')) <= 0]"
    )
    return judge("error_share", error_share, cases, praise, formula)


def _share_case(about: str, plus: Any, minus: Any, center: Any) -> Case:
    up, down, middle = (np.array(values, dtype=float) for values in (plus, minus, center))
    kinds = len(up)
    k, other, y, epsilon = (
        axis.ravel() for axis in np.meshgrid(np.arange(kinds), np.arange(kinds), [1, -1], [1, -1], indexing="ij")
    )
    differ = k != other

    def margins(of: np.ndarray, signs: np.ndarray = epsilon, weigh: float = 1) -> np.ndarray:
        feature = np.where(y > 0, up[k], down[k])
        noise = np.where(signs > 0, up[other], down[other])
        return np.asarray(y * (feature + weigh * middle[of] + noise))

    def wrong(values: np.ndarray, where: np.ndarray) -> float:
        return float((values <= 0)[where].mean())

    right, noise = margins(k), np.where(epsilon > 0, up[other], down[other])
    mistakes = {
        "You do not count y F = 0: no answer is no right answer, so the rule is y F <= 0.": float(
            (right < 0)[differ].mean()
        ),
        "You return the accuracy: count what is wrong.": 1 - wrong(right, differ),
        "You let k' = k: the feature noise is of another cluster.": wrong(right, np.ones_like(differ)),
        "You take the center of k': the sample's own cluster is k.": wrong(margins(other), differ),
        "You left out the center.": wrong(margins(k, weigh=0), differ),
        "You took epsilon = -y only: epsilon is +1 or -1 whatever y is.": wrong(right, differ & (epsilon == -y)),
        "You took epsilon = y only: epsilon is +1 or -1 whatever y is.": wrong(right, differ & (epsilon == y)),
        "You took y = +1 only: both labels are equally likely.": wrong(right, differ & (y > 0)),
        "You forgot the label: a sample is wrong where y F <= 0, not where F <= 0.": wrong(y * right, differ),
        "You count the wrong ones: divide by their number, 4 K (K - 1).": float((right <= 0)[differ].sum()),
        "You took epsilon = +1 only: it is -1 as often.": wrong(right, differ & (epsilon > 0)),
        "You took epsilon = -1 only: it is +1 as often.": wrong(right, differ & (epsilon < 0)),
        "You took y = -1 only: both labels are equally likely.": wrong(right, differ & (y < 0)),
        "You left out the feature f(y alpha v_k).": wrong(y * (middle[k] + noise), differ),
        "You left out the noise f(epsilon alpha v_k').": wrong(right - y * noise, differ),
        "You took the cluster k' = k + 1 alone: it is any other one.": wrong(right, other == (k + 1) % kinds),
        **one_only("cluster k", *(wrong(right, differ & (k == one)) for one in (0, kinds - 1))),
        **one_only("other cluster k'", *(wrong(right, differ & (other == one)) for one in (0, kinds - 1))),
    }
    return Case((up, down, middle), wrong(right, differ), about, mistakes)


def check_mixture_output(mixture_output: object) -> Verdict:
    """Checks `mixture_output(patches, routers, filters, noise) -> float`: F(x) of section 3.2, cubic experts.

    One sample. Shapes: patches (P, d), routers (M, d), filters (M, J, d), noise (M,) the r of every expert.
    """
    generator = np.random.default_rng(14)

    def draw(p: int, m: int, j: int, d: int) -> list[np.ndarray]:
        return [generator.normal(size=shape) for shape in ((p, d), (m, d), (m, j, d))]

    tiny = [np.array([[1.0, 0], [0, 2]]), np.array([[0.7, 0], [0, 0.45]]), np.array([[[1.0, 1]], [[1.0, -2]]])]
    cases = [
        _mixture_case("without noise, for P=2, M=2, J=1", np.zeros(2), *tiny),
        _mixture_case("with noise that turns the choice round", np.array([0.9, 0.1]), *tiny),
        _mixture_case("for a random model with P=4, M=3, J=2", generator.uniform(size=3), *draw(4, 3, 2, 5)),
        _mixture_case("for a random model with P=5, M=6, J=4", 4 * generator.uniform(size=6), *draw(5, 6, 4, 3)),
    ]
    praise = "The noise picks the expert and nothing else: it explores, and leaves the gate as it is."
    formula = (
        "F = pi_m sum over j and p of <w_mj, x_p>^3, with m = argmax (h + r), pi = softmax(h) and h_m = "
        "<theta_m, sum of x_p>"
    )
    return judge("mixture_output", mixture_output, cases, praise, formula)


def _mixture_case(about: str, noise: np.ndarray, patches: Any, routers: Any, filters: Any) -> Case:
    scores = routers @ patches.sum(0)

    def softmax(values: np.ndarray) -> np.ndarray:
        powers = np.exp(values - values.max())
        return np.asarray(powers / powers.sum())

    products = np.einsum("mjd,pd->mjp", filters, patches)
    experts = (products**3).sum((1, 2))
    gates, chosen, quiet = softmax(scores), int((scores + noise).argmax()), int(scores.argmax())
    mean = scores / len(patches)
    of_mean = int((mean + noise).argmax())
    right = float(gates[chosen] * experts[chosen])
    mistakes = {
        "The noise does not change your choice: the expert is the argmax of h + r.": float(
            gates[quiet] * experts[quiet]
        ),
        "Your gate contains the noise: it is the softmax of h alone.": float(
            softmax(scores + noise)[chosen] * experts[chosen]
        ),
        "You left out the gate: F = pi f.": float(experts[chosen]),
        "You multiply by the winning score h + r, as the authors' code does: the gate is the softmax of h.": float(
            (scores + noise)[chosen] * experts[chosen]
        ),
        "You multiply by the score itself: the gate is its softmax over all experts.": float(
            scores[chosen] * experts[chosen]
        ),
        "You add up all experts: the sample goes to one of them.": float(gates @ experts),
        "You cube after summing over the patches: a filter sees one patch at a time.": float(
            gates[chosen] * (products.sum(2) ** 3).sum(1)[chosen]
        ),
        "You left out the cube: these experts are linear.": float(gates[chosen] * products.sum((1, 2))[chosen]),
        "You take the mean over the patches: eq. 3.1 has the sum.": right / len(patches),
        "You take the mean over the filters: eq. 3.1 has the sum.": right / filters.shape[1],
        "You return sign(F): return F itself.": float(np.sign(right)),
        "You cube after summing over the filters: each filter is cubed by itself.": float(
            gates[chosen] * (products.sum(1) ** 3).sum(1)[chosen]
        ),
        "You score the mean of the patches: a score is <theta_m, sum of x_p>.": float(
            softmax(mean)[of_mean] * experts[of_mean]
        ),
        **one_only("patch", *(float(gates[chosen] * (products**3).sum(1)[chosen, p]) for p in (0, -1))),
        **one_only("filter", *(float(gates[chosen] * (products**3).sum(2)[chosen, j]) for j in (0, -1))),
    }
    return Case((patches, routers, filters, noise), right, about, mistakes)
