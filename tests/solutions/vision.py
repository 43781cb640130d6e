"""Solutions of notebook 08, and the wrong answers that its hints are for."""

from __future__ import annotations

import numpy as np

from tests.solutions.routing import softmax


def kept_in_object(kept, inside):
    found = total = 0
    for image, object_ in zip(kept, inside, strict=True):
        for patches in image:  # of one expert
            found += np.sum(patches[object_ > 0])
            total += np.sum(patches)
    return found / total


def gates_over_all(scores, l):
    gates = softmax(scores)
    gates[np.argsort(scores)[:-l]] = 0
    return gates


def paired_gain(study, control):
    gains = study - control
    return gains.mean(), gains.std(ddof=1) / np.sqrt(len(gains))


def is_turned(images):
    levels = 16 * images.reshape(len(images), -1)
    return (np.abs(levels - levels.round()).max(axis=1) > 1e-3).astype(int)


def _best(scores, count):
    return np.sort(np.argsort(scores)[-count:])


def _zeroed_scores(scores, count):
    kept = np.zeros(len(scores))
    kept[_best(scores, count)] = scores[_best(scores, count)]
    return softmax(kept)


def _eq_5(scores, count):
    gates = np.zeros(len(scores))
    gates[_best(scores, count)] = softmax(scores[_best(scores, count)])
    return gates


def _worst(scores, count):
    gates = np.zeros(len(scores))
    gates[np.argsort(scores)[:count]] = softmax(scores)[np.argsort(scores)[:count]]
    return gates


def _overflowing(scores, count):
    with np.errstate(all="ignore"):
        powers = np.exp(scores + 500)
        gates = powers / powers.sum()
    gates[np.argsort(scores)[:-count]] = 0
    return gates


WRONG = {
    "kept_in_object": {
        "divide by all patches": lambda kept, inside: (kept * inside[:, None]).mean(),
        "how much of the object is kept": lambda kept, inside: (
            (kept * inside[:, None]).sum() / (inside.sum() * kept.shape[1])
        ),
        "however many experts keep it": lambda kept, inside: kept_in_object(kept.max(1, keepdims=True), inside),
        "shares of images and experts": lambda kept, inside: (
            (kept * inside[:, None]).sum(2) / np.maximum(kept.sum(2), 1)
        ).mean(),
        "whatever is kept: chance": lambda kept, inside: inside.mean(),
        "the number of kept patches in the object": lambda kept, inside: (kept * inside[:, None]).sum(),
        "share outside the object": lambda kept, inside: 1 - kept_in_object(kept, inside),
        "one number an expert": lambda kept, inside: (kept * inside[:, None]).sum((0, 2)) / kept.sum((0, 2)),
        "first image alone": lambda kept, inside: kept_in_object(kept[:1], inside[:1]),
        "last image alone": lambda kept, inside: kept_in_object(kept[-1:], inside[-1:]),
        "first expert alone": lambda kept, inside: kept_in_object(kept[:, :1], inside),
        "last expert alone": lambda kept, inside: kept_in_object(kept[:, -1:], inside),
    },
    "gates_over_all": {
        "This is eq. 5": _eq_5,
        "keep all patches": lambda scores, count: softmax(scores),
        "l worst": _worst,
        "return the mask": lambda scores, count: (gates_over_all(scores, count) > 0).astype(float),
        "return the scores": lambda scores, count: scores * (gates_over_all(scores, count) > 0),
        "a score of 0 has a gate": _zeroed_scores,
        "return all n": lambda scores, count: softmax(scores)[_best(scores, count)],
        "take the largest score away": _overflowing,
    },
    "paired_gain": {
        "two separate groups": lambda study, control: (
            (study - control).mean(),
            np.sqrt((study.var(ddof=1) + control.var(ddof=1)) / len(study)),
        ),
        "divide by T - 1": lambda study, control: (
            (study - control).mean(),
            (study - control).std() / np.sqrt(len(study)),
        ),
        "spread of one difference": lambda study, control: ((study - control).mean(), (study - control).std(ddof=1)),
        "falls with sqrt(T)": lambda study, control: (
            (study - control).mean(),
            (study - control).std(ddof=1) / len(study),
        ),
        "take its root": lambda study, control: (paired_gain(study, control)[0], paired_gain(study, control)[1] ** 2),
        "wrong way round": lambda study, control: paired_gain(control, study),
        "take the median": lambda study, control: (np.median(study - control), paired_gain(study, control)[1]),
        "return the mean alone": lambda study, control: (study - control).mean(),
        "add up the gains": lambda study, control: ((study - control).sum(), paired_gain(study, control)[1]),
        "return the error alone": lambda study, control: paired_gain(study, control)[1],
        "the two exchanged": lambda study, control: paired_gain(study, control)[::-1],
        "first gain alone": lambda study, control: ((study - control)[0], paired_gain(study, control)[1]),
        "last gain alone": lambda study, control: ((study - control)[-1], paired_gain(study, control)[1]),
    },
    "is_turned": {
        "answers are reversed": lambda images: 1 - is_turned(images),
        "every digit turned": lambda images: np.ones(len(images)),
        "no digit turned": lambda images: np.zeros(len(images)),
        "how many are turned": lambda images: is_turned(images).sum(),
        "pixel in the middle": lambda images: is_turned(images[:, 4:5, 4:5]),
    },
}
