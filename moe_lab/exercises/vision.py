"""Checks of notebook 08: kept patches in the object, two softmaxes, a paired gain, and a leak."""

from __future__ import annotations

from typing import Any

import numpy as np

from moe_lab.exercises.cases import Case, one_only
from moe_lab.exercises.verdict import Verdict, judge
from moe_lab.vision.rotation.data import TurnTask


def check_kept_in_object(kept_in_object: object) -> Verdict:
    """Checks `kept_in_object(kept, inside) -> float`: the share of kept patches that lie in the object.

    kept is (N, k, n), 1 where an expert keeps a patch of an image; inside is (N, n), 1 where the object is.
    """
    generator = np.random.default_rng(81)
    small = [[[1, 1, 0, 0], [0, 1, 0, 1]]], [[1, 0, 0, 1]]
    uneven = generator.random((6, 3, 16)) < np.linspace(0.1, 0.7, 6)[:, None, None]
    cases = [
        _kept_case("for one image of 4 patches, 2 experts", *small),
        _kept_case("for 6 random images", generator.random((6, 3, 16)) < 0.25, generator.random((6, 16)) < 0.4),
        _kept_case("where experts keep different numbers of patches", uneven, generator.random((6, 16)) < 0.4),
        _kept_case("where all patches are kept", np.ones((5, 2, 9)), generator.random((5, 9)) < 0.5),
    ]
    praise = "Where all patches are kept it is the object's share of the image: chance, the line to compare with."
    formula = "sum of kept[i, s, j] inside[i, j] over the sum of kept[i, s, j]"
    return judge("kept_in_object", kept_in_object, cases, praise, formula)


def _kept_case(about: str, kept: Any, inside: Any) -> Case:
    chosen, object_ = np.array(kept, dtype=float), np.array(inside, dtype=float)
    both = chosen * object_[:, None]
    right = float(both.sum() / chosen.sum())
    each = both.sum(2) / np.maximum(chosen.sum(2), 1)
    mistakes = {
        "You divide by all patches: divide by the number of kept ones.": float(both.mean()),
        "You divide by the object's patches: that is how much of the object is kept, another question.": float(
            both.sum() / (object_.sum() * chosen.shape[1])
        ),
        "You count a patch once, however many experts keep it: count it for every expert.": float(
            both.max(1).sum() / chosen.max(1).sum()
        ),
        "You average the shares of images and experts: add up first, then divide once.": float(each.mean()),
        "This is the object's share of the image, whatever is kept: chance.": float(object_.mean()),
        "You return the number of kept patches in the object: divide by the number of kept ones.": float(both.sum()),
        "This is the share outside the object.": 1 - right,
        "You return one number an expert: add up over the experts, too.": both.sum((0, 2))
        / np.maximum(chosen.sum((0, 2)), 1),
        **one_only("image", *(float(both[i].sum() / chosen[i].sum()) for i in (0, -1))),
        **one_only("expert", *(float(both[:, s].sum() / chosen[:, s].sum()) for s in (0, -1))),
    }
    return Case((chosen, object_), right, about, mistakes)


def check_gates_over_all(gates_over_all: object) -> Verdict:
    """Checks `gates_over_all(scores, l) -> (n,)`: a softmax over all patches, then 0 for all but the l best."""
    generator = np.random.default_rng(82)
    cases = [
        _gates_case("for scores (1, 3, 0, 2) and l=2", [1, 3, 0, 2], 2),
        _gates_case("for 16 random scores and l=4", 3 * generator.normal(size=16), 4),
        _gates_case("for 9 equal scores but one, and l=1", [0, 0, 0, 1, 0, 0, 0, 0, 0], 1),
        _gates_case("for scores in the hundreds", 300 + generator.normal(size=8), 3),
    ]
    praise = (
        "With l=1 this gate is not always 1, as it is in eq. 5: it has a slope, and a router learns from one patch."
    )
    overflow = "exp of a large score is infinite: take the largest score away first, which changes no softmax."
    formula = "G_j = exp(score_j) / sum of exp(score) over all n patches, if j is among the l best, and 0 elsewhere"
    return judge("gates_over_all", gates_over_all, cases, praise, formula, not_finite=overflow)


def _gates_case(about: str, scores: Any, keep: int) -> Case:
    values = np.array(scores, dtype=float)
    top = np.argsort(values)[-keep:]
    mask = np.zeros(len(values))
    mask[top] = 1
    powers = np.exp(values - values.max())
    shares = powers / powers.sum()
    kept = np.where(mask > 0, powers, 0)
    mistakes = {
        "This is eq. 5, whose softmax runs over the kept patches: here it runs over all of them.": kept / kept.sum(),
        "You keep all patches: set those that are not among the l best to 0.": shares,
        "You keep the l worst patches: keep those with the largest scores.": np.where(
            np.isin(np.arange(len(values)), np.argsort(values)[:keep]), shares, 0
        ),
        "You return the mask: a kept patch is multiplied by its gate.": mask,
        "You return the scores: take their softmax.": mask * values,
        "You set the other scores to 0 before the softmax: a score of 0 has a gate, too.": np.exp(
            mask * values - np.max(mask * values)
        )
        / np.exp(mask * values - np.max(mask * values)).sum(),
        "You return the gates of the kept patches alone: return all n, with zeros.": shares[np.sort(top)],
    }
    return Case((values, keep), mask * shares, about, mistakes)


def check_paired_gain(paired_gain: object) -> Verdict:
    """Checks `paired_gain(study, control) -> (2,)`: the mean gain over pairs of trials, and its standard error.

    study[i] and control[i] are accuracies of two models on the same samples; the error is s / sqrt(T).
    """
    generator = np.random.default_rng(83)
    difficulty = generator.normal(size=12)
    cases = [
        _paired_case("for three trials", [0.92, 0.91, 0.90], [0.94, 0.92, 0.86]),
        _paired_case("for two trials", [0.8, 0.5], [0.7, 0.5]),
        _paired_case(
            "where trials differ far more than models", difficulty + 0.1, difficulty + 0.03 * generator.normal(size=12)
        ),
    ]
    praise = "In the last case trials differ by 1 and models by .1: pairs show it, for they share what is hard."
    formula = "d_i = study_i - control_i; then the mean of d and s_d / sqrt(T), with T - 1 in s_d"
    return judge("paired_gain", paired_gain, cases, praise, formula)


def _paired_case(about: str, study: Any, control: Any) -> Case:
    first, second = np.array(study, dtype=float), np.array(control, dtype=float)
    gains, count = first - second, len(first)
    mean, error = gains.mean(), gains.std(ddof=1) / np.sqrt(count)
    apart = np.sqrt((first.var(ddof=1) + second.var(ddof=1)) / count)
    mistakes = {
        "Your error is that of two separate groups: take the differences first, trial by trial.": [mean, apart],
        "You divide the squares by T: with T - 1 differences from the mean, divide by T - 1 (ddof=1).": [
            mean,
            gains.std() / np.sqrt(count),
        ],
        "This is the spread of one difference: the mean of T has an error smaller by sqrt(T).": [
            mean,
            gains.std(ddof=1),
        ],
        "You divide by T: the error falls with sqrt(T).": [mean, gains.std(ddof=1) / count],
        "You return the variance of the mean: take its root.": [mean, error**2],
        "You subtract the wrong way round: a gain is study - control.": [-mean, error],
        "You take the median: take the mean.": [float(np.median(gains)), error],
        "You return the mean alone: its error says whether to believe it.": mean,
        "You add up the gains: take their mean.": [gains.sum(), error],
        "You return the error alone: the mean comes first.": error,
        "You have the two exchanged: the mean comes first.": [error, mean],
        **one_only("gain", [gains[0], error], [gains[-1], error]),
    }
    return Case((first, second), np.array([mean, error]), about, mistakes)


def check_is_turned(is_turned: object) -> Verdict:
    """Checks `is_turned(images) -> (N,)`: 1 where a digit of the leaky task is turned by 30 degrees, else 0.

    images are (N, 8, 8) with ink from 0 to 1, as the task gives them: no digit has to be recognised.
    """
    cases = [
        _turned_case("for 6 digits", 6, 84, slice(None)),
        _turned_case("for 200 digits", 200, 85, slice(None)),
        _turned_case("for 20 digits, none of them turned", 40, 86, slice(0, None, 2)),
    ]
    praise = (
        "No learning, no digits, no mixture, and every answer right. Whoever beats this task has shown nothing yet."
    )
    formula = "1 where 16 times some pixel is no whole number, 0 where all are"
    return judge("is_turned", is_turned, cases, praise, formula)


def _turned_case(about: str, count: int, seed: int, rows: slice) -> Case:
    drawn = TurnTask(kind="leaky").sample(count, trials=[0], seed=seed)
    images = np.asarray(drawn.images[0, rows, 0], dtype=float)
    labels = np.asarray(drawn.labels[0, rows], dtype=float)
    mistakes = {
        "Your answers are reversed: 1 is turned.": 1 - labels,
        "You call no digit turned. Look at the values of a pixel: before turning they are multiples of 1/16.": np.zeros(
            len(labels)
        ),
        "You return how many are turned: return an answer for every image.": labels.sum(),
        "You look at the pixel in the middle alone: look at all of them.": _off_grid(images)[:, 4, 4],
        "You call every digit turned.": np.ones(len(labels)),
    }
    return Case((images,), labels, about, mistakes)


def _off_grid(images: np.ndarray) -> np.ndarray:
    """Where 16 times a pixel is no whole number."""
    levels = 16 * images
    return np.asarray(np.abs(levels - levels.round()) > 1e-3)
