"""Checks of notebook 10: two losses on the load, one on the size of scores, and the step of a bias."""

from __future__ import annotations

from typing import Any

import numpy as np

from moe_lab.exercises.cases import Case, one_only
from moe_lab.exercises.verdict import Verdict, judge


def check_switch_loss(switch_loss: object) -> Verdict:
    """Checks `switch_loss(gates) -> float`: M sum_m f_m P_m (Fedus et al., 2021, eq. 4 to 6), of gates (N, M)."""
    generator = np.random.default_rng(31)
    cases = [
        _switch_case("for 3 samples and 2 experts", [[0.75, 0.25], [0.6, 0.4], [0.1, 0.9]]),
        _switch_case("for 40 samples and 5 experts", generator.dirichlet(np.full(5, 0.4), size=40)),
        _switch_case("where expert 2 gets nothing", [[0.6, 0.1, 0.3], [0.2, 0.1, 0.7], [0.5, 0.3, 0.2]]),
        _switch_case(
            "where the loss is below 1", [[0.51, 0.49], [0.51, 0.49], [0.51, 0.49], [0.01, 0.99], [0.01, 0.99]]
        ),
    ]
    praise = (
        "Look at the last case: the loss is below 1, its value for equal loads, since whoever gets most samples there "
        "has the smaller mean gate. So an even load is not the minimum of what is printed, although the paper says so."
    )
    formula = "M sum_m f_m P_m, with f_m the share of samples whose largest gate is m, and P_m the mean of column m"
    return judge("switch_loss", switch_loss, cases, praise, formula)


def _switch_case(about: str, table: Any) -> Case:
    gates = np.array(table, dtype=float)
    samples, experts = gates.shape
    share = np.bincount(gates.argmax(1), minlength=experts) / samples
    mean = gates.mean(0)
    right = float(experts * share @ mean)
    mistakes = {
        "You left out M, the number of experts, which makes the loss 1 for equal loads.": right / experts,
        "You took the gates twice: f_m counts the samples whose largest gate is m's.": float(experts * mean @ mean),
        "You took the counts twice: P_m is the mean of m's gates, over all samples.": float(experts * share @ share),
        "You count samples or add up gates: f_m is a share, P_m a mean, so divide each by N.": right * samples,
        "You forgot to divide both by N: f_m is a share, P_m a mean.": right * samples**2,
        "You take only the winners' gates: P_m is over all samples, also those that go elsewhere.": float(
            experts * share @ np.where(np.eye(experts)[gates.argmax(1)] > 0, gates, 0).mean(0)
        ),
        "You take the mean over the experts: add them up and multiply by M.": right / experts**2,
        "You return one number an expert: add them up.": experts * share * mean,
        **one_only("expert", *(float(experts * share[m] * mean[m]) for m in (0, -1))),
    }
    return Case((gates,), right, about, mistakes)


def check_importance_loss(importance_loss: object) -> Verdict:
    """Checks `importance_loss(gates) -> float`: CV(importance)^2 (Shazeer et al., eq. 6 and 7), of gates (N, M)."""
    generator = np.random.default_rng(32)
    cases = [
        _importance_case("for 3 samples and 2 experts", [[0.75, 0.25], [0.6, 0.4], [0.1, 0.9]]),
        _importance_case("for 30 samples and 6 experts", generator.dirichlet(np.full(6, 0.5), size=30)),
        _importance_case("for gates that do not sum to 1", [[0.5, 0.2, 0.0], [0.1, 0.0, 0.3], [0.4, 0.4, 0.0]]),
        _importance_case("where one expert has everything", [[1.0, 0, 0], [1, 0, 0]]),
        _importance_case("for equal importance", [[0.9, 0.1], [0.1, 0.9]]),
    ]
    praise = (
        "M - 1 if one expert has everything, 0 if all are equally important. It asks for equal sums of gates, not for "
        "equal numbers of samples: the last case would be 0 with gates of .5, too, whoever gets the samples."
    )
    formula = "variance of I_1 ... I_M over the square of their mean, with I_m the sum of column m"
    return judge("importance_loss", importance_loss, cases, praise, formula)


def _importance_case(about: str, table: Any) -> Case:
    gates = np.array(table, dtype=float)
    importance = gates.sum(0)
    mean, spread = importance.mean(), importance.std()
    right = float((spread / mean) ** 2)
    experts = len(importance)
    load = np.bincount(gates.argmax(1), minlength=experts)
    mistakes = {
        "This is CV: the loss is its square.": float(spread / mean),
        "This is the variance: divide it by the squared mean.": float(spread**2),
        "You divide the variance by the mean: divide by its square.": float(spread**2 / mean),
        "You divide the squared deviations by M - 1: CV takes the mean over the M experts.": right
        * experts
        / (experts - 1),
        "You exchanged the axes: importance sums each expert's gates over the samples.": float(
            (gates.sum(1).std() / gates.sum(1).mean()) ** 2
        ),
        "You count samples: importance is the sum of gates, which has a derivative.": float(
            (load.std() / load.mean()) ** 2
        ),
        "This is 1 + CV^2: subtract the squared mean.": right + 1,
        "You return the importance: its CV^2 is one number.": importance,
        "This is CV^2 of all gates, one by one: sum each expert's gates over the samples first.": float(
            gates.var() / gates.mean() ** 2
        ),
        **one_only("sample", *(float(gates[i].var() / gates[i].mean() ** 2) for i in (0, -1))),
    }
    return Case((gates,), right, about, mistakes)


def check_router_z_loss(router_z_loss: object) -> Verdict:
    """Checks `router_z_loss(scores) -> float`: the mean of (log sum exp h)^2 (Zoph et al., eq. 5), of scores (N, M)."""
    generator = np.random.default_rng(33)
    cases = [
        _z_case("for 2 samples and 3 experts", [[0.0, 0.0, 0.0], [1.0, 2.0, -1.0]]),
        _z_case("for 25 random samples", 2 * generator.normal(size=(25, 4))),
        _z_case("for a score of 800", [[800.0, 0.0], [3.0, 1.0]]),
    ]
    praise = "It punishes large scores, whoever has them: an even load is not what it asks for."
    overflow = "exp(800) overflows: subtract the largest score first, and add it to the logarithm."
    formula = "(1/N) sum_i (log sum_m exp(h_im))^2"
    return judge("router_z_loss", router_z_loss, cases, praise, formula, not_finite=overflow)


def _z_case(about: str, table: Any) -> Case:
    scores = np.array(table, dtype=float)

    def sizes(axis: int) -> np.ndarray:
        return np.asarray(np.logaddexp.reduce(scores, axis=axis))

    size = sizes(1)
    mistakes = {
        "You forgot the square.": float(size.mean()),
        "You square the mean: take the mean of the squares.": float(size.mean() ** 2),
        "You add up the samples: take their mean.": float((size**2).sum()),
        "You take the logarithm of the mean of the exponentials: take that of their sum.": float(
            ((size - np.log(scores.shape[1])) ** 2).mean()
        ),
        "You exchanged the axes: the logarithm is over the experts, the mean over the samples.": float(
            (sizes(0) ** 2).mean()
        ),
        "You square the scores: square the logarithm.": float((scores**2).mean()),
        "You return one number a sample: take their mean.": size**2,
        "You square the largest score: the logarithm is of a sum over all experts.": float((scores.max(1) ** 2).mean()),
        **one_only("sample", float(size[0] ** 2), float(size[-1] ** 2)),
    }
    return Case((scores,), float((size**2).mean()), about, mistakes)


def check_moved_bias(moved_bias: object) -> Verdict:
    """Checks `moved_bias(bias, scores, rate) -> (M,)`: a step of Wang et al., 2024, algorithm 1; scores are (N, M)."""
    generator = np.random.default_rng(34)
    even = np.array([[3.0, 1, 0], [0, 2, 1], [1, 0, 2], [4, 1, 1], [0, 3, 2], [0, 1, 4]])
    cases = [
        _bias_case("for 4 samples and 2 experts", [0.0, 0.0], [[2.0, 1], [3, 0], [0, 1], [5, 4]], 0.1),
        _bias_case("where the bias decides who gets a sample", [0.0, 1.5, 0.0], [[2.0, 1, 0]] * 4, 0.25),
        _bias_case("where the load is even", [0.1, 0.0, -0.1], even, 0.5),
        _bias_case("for 60 random samples", generator.normal(size=5), generator.normal(size=(60, 5)), 0.01),
    ]
    praise = "No gradient anywhere: whoever has too much loses a little of its advantage. The gates never see the bias."
    formula = "b_m + rate sign(mean load - load of m), where a sample loads the m with the largest h_m + b_m"
    return judge("moved_bias", moved_bias, cases, praise, formula)


def _bias_case(about: str, first: Any, table: Any, rate: float) -> Case:
    bias, scores = np.array(first, dtype=float), np.array(table, dtype=float)
    experts = len(bias)

    def missing(preferred: np.ndarray) -> np.ndarray:
        counts = np.bincount(preferred.argmax(1), minlength=experts)
        return np.asarray(counts.mean() - counts)

    error = missing(scores + bias)
    step = rate * np.sign(error)
    mistakes = {
        "Your bias goes the wrong way: an expert with too many samples must lose.": bias - step,
        "You select without the bias: samples go to the largest score plus bias.": bias
        + rate * np.sign(missing(scores)),
        "You move by the error itself: algorithm 1 takes its sign.": bias + rate * error,
        "You move by the error in shares: algorithm 1 takes its sign.": bias + rate * error / len(scores),
        "You left out the rate.": bias + np.sign(error),
        "You return the step: add it to the bias.": step,
        "The first expert's bias alone has moved: all of them move.": np.concatenate(((bias + step)[:1], bias[1:])),
        "The last expert's bias alone has moved: all of them move.": np.concatenate((bias[:-1], (bias + step)[-1:])),
        "You select the smallest score plus bias: samples go to the largest.": bias
        + rate * np.sign(missing(-(scores + bias))),
        "You give every expert with the mean or less the same: where the load is as the mean, the bias stays.": bias
        + rate * np.where(error >= 0, 1, -1),
    }
    return Case((bias, scores, rate), bias + step, about, mistakes)
