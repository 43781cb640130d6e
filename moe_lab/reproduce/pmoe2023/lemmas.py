"""The claims of pmoe2023 about its lemmas E.2 to I.4, about appendix M, router samples and spurious correlations.

The lemmas hide their constants. What is judged has none: shares that they bound, and the sign of a step's change.
Appendix F has definitions, and theorems 4.2 to 4.5 in full, which are claims of `theorems`. Lemmas G.2, H.2 and I.2
are G.3, H.3 and I.3 for values that do not depend on the weights. Lemmas J.1 and J.2 are another paper's. Figures 1, 2
and 19 are drawings of the model, which the Labs draw from trained ones.
"""

from __future__ import annotations

from functools import partial

import xarray as xr

from moe_lab.reproduce.claim import (
    Claim,
    Measurement,
    Published,
    Read,
    Rule,
    at_least,
    near,
    nearer,
    selected,
    share_from,
    up_to,
)
from moe_lab.reproduce.pmoe2023.sources import LEMMAS, MEASURES

STEPS = Measurement.sized(
    name="pmoe2023/lemmas-steps",
    function=f"{LEMMAS}:lemma_steps",
    sizes={"neurons": ((400,), (200, 400, 800)), "trials": (2, 6), "steps": (4, 8)},
    seconds=(5, 60),
)
ROUTERS = Measurement.sized(
    name="pmoe2023/lemmas-routers",
    function=f"{LEMMAS}:router_lemmas",
    sizes={"samples": (1000, 4000), "trials": (4, 20)},
    seconds=(0.2, 8),
)
ROUTER_SAMPLES = Measurement.sized(
    name="pmoe2023/router-samples",
    function=f"{LEMMAS}:router_samples",
    sizes={"counts": ((100, 200), (50, 100, 200)), "samples": (200, 200), "trials": (12, 60)},
    seconds=(1, 8),
    device=True,
)
CLASSES = Measurement.sized(
    name="pmoe2023/appendixM-training",
    function=f"{MEASURES}:accuracy_by_knob",
    sizes={"knob": ("classes", "classes"), "values": ((4,), (4,)), "samples": (400, 3200), "trials": (3, 8)},
    seconds=(2, 60),
    device=True,
)
SPURIOUS = Measurement.sized(
    name="pmoe2023/finding1-spurious",
    function=f"{MEASURES}:accuracy_by_knob",
    sizes={
        "knob": ("spurious", "spurious"),
        "values": ((0.0, 0.9), (0.0, 0.9)),
        "samples": (200, 200),
        "trials": (4, 40),
    },
    seconds=(2.5, 20),
    device=True,
)

_LETTER = {"separate": "G", "joint": "H", "cnn": "I"}
_NAMES = {"separate": "separate training", "joint": "joint training", "cnn": "the CNN"}
_CONSTANTS = "the lemma's constant is hidden, and 1 here"


def _of_steps(
    name: str, model: str, number: int, statement: str, published: Published, rule: Rule, reason: str
) -> Claim:
    """A claim about every step, for every number of neurons."""

    def read(data: xr.Dataset) -> xr.DataArray:
        values = data[name].sel(model=model)
        return values.max("neurons") if name == "changed" else values.min("neurons")

    return Claim(
        id=f"pmoe2023/lemma{_LETTER[model]}.{number}/{name}",
        where=f"lemma {_LETTER[model]}.{number}",
        statement=f"in {_NAMES[model]}, {statement}" if model != "cnn" else f"in the CNN, {statement}",
        published=published,
        measurement=STEPS,
        read=read,
        rule=rule,
        reason=reason,
    )


def _steps() -> tuple[Claim, ...]:
    found: list[Claim] = []
    for model in _LETTER:
        found += [
            _of_steps(
                "changed",
                model,
                1,
                "at most a share 2 e tau l / sigma of the neurons has another gradient than with the signs of the "
                "start, tau being how far they have moved: the largest share over it",
                Published(value=1, bound="at most", relation="of the lemma's share, in every sample"),
                Rule(agrees=up_to(1), of="highest"),
                "",
            ),
            _of_steps(
                "large",
                model,
                3,
                "as many neurons have an expected pseudo-gradient as large as the lemma says: the smallest share over "
                "the lemma's",
                Published(value=1, bound="at least", relation="of the lemma's share"),
                Rule(in_kind=at_least(1), of="lowest"),
                _CONSTANTS,
            ),
            _of_steps(
                "falls",
                model,
                4,
                "the expected loss falls in every step: share of the steps",
                Published(value=1, relation="with high probability"),
                Rule(agrees=share_from(0.95), in_kind=share_from(nearer(1, 0.5))),
                "batches of 1000 are fewer than the lemma's, so that a step of a narrow mixture can raise it: of joint "
                "training's steps 3 % do with 400 neurons, and 12 % with 200",
            ),
        ]
    return tuple(found)


def _lead(model: str) -> Read:
    """Accuracy less the CNN's with spurious correlations, trial by trial."""

    def read(data: xr.Dataset) -> xr.DataArray:
        accuracy = data["test_accuracy"].sel(spurious=0.9)
        return accuracy.sel(model=model) - accuracy.sel(model="cnn")

    return read


_spurious = partial(Claim, where="finding I and figure 11", measurement=SPURIOUS, unit="accuracy")
_IN_PATTERNS = "patterns in place of CelebA's photographs"
CLAIMS: tuple[Claim, ...] = (
    *_steps(),
    Claim(
        id="pmoe2023/lemmaE.2/first-routers",
        where="lemma E.2",
        statement="first routers of separate training are at most 1/n^2 long: the longest times n^2",
        published=Published(value=1, bound="at most"),
        measurement=ROUTERS,
        read=lambda data: data["first"],
        rule=Rule(agrees=up_to(1), of="highest"),
    ),
    Claim(
        id="pmoe2023/lemmaE.3/above-far-patches",
        where="lemma E.3",
        statement="a separately trained router ranks o above every patch that is not (1 - delta_d)/2-closer to a class",
        published=Published(value=1, relation="for all samples, with high probability"),
        measurement=ROUTERS,
        read=lambda data: data["above"],
        rule=Rule(agrees=share_from(1.0), of="lowest"),
        unit="share of the samples",
    ),
    Claim(
        id="pmoe2023/algorithm1/router-samples",
        where="section 3, algorithm 1",
        statement="half of the samples, N_r = N/2, train the routers as well as all of them do",
        published=Published(value=0, relation="N_r < N; difference of the two accuracies"),
        measurement=ROUTER_SAMPLES,
        read=lambda data: data["test_accuracy"].sel(router_samples=100) - data["test_accuracy"].sel(router_samples=200),
        rule=Rule(agrees=near(0, 0.025)),  # three standard errors of twelve trials
        unit="accuracy",
    ),
    *(
        Claim(
            id=f"pmoe2023/appendixM/{model}-accuracy",
            where=f"appendix M.{number}, theorem {theorem} for c classes",
            statement=f"with enough samples {model} training has four classes right, up to an error of .05",
            published=Published(value=0.95, bound="at least", relation="1 - epsilon, for every epsilon"),
            measurement=CLASSES,
            read=selected("test_accuracy", model=model, classes=4),
            rule=Rule(agrees=share_from(0.95)),
            reason=reason,
            unit="accuracy",
        )
        for model, number, theorem, reason in (
            ("joint", 2, "4.5", ""),
            (
                "separate",
                1,
                "4.2",
                "how many are enough is not known; its accuracy is .68 from 200 samples and .88 from 800, where joint "
                "training has .98 and more, and the CNN .64 and .97",
            ),
        )
    ),
    *(
        _spurious(
            id=f"pmoe2023/finding1/spurious-{model}",
            statement=f"where an irrelevant pattern goes with the label in 95 % of training samples, {model} training "
            "outperforms the CNN",
            published=Published(relation="pMoE is above the single network in figure 11"),
            read=_lead(model),
            rule=Rule(in_kind=at_least(0.05)),  # three standard errors of four trials
            reason=reason,
        )
        for model, reason in (
            ("joint", _IN_PATTERNS),
            (
                "separate",
                f"{_IN_PATTERNS}; a separately trained router follows the mean of y times all patches, which contains "
                "the spurious pattern as it does o, and so keeps it",
            ),
        )
    ),
    _spurious(
        id="pmoe2023/finding1/spurious-lower",
        statement="with spurious correlations in training the CNN's test accuracy is lower than without",
        published=Published(relation="the accuracies are lower in figure 11 than in figure 10"),
        read=lambda data: (
            data["test_accuracy"].sel(model="cnn", spurious=0.0) - data["test_accuracy"].sel(model="cnn", spurious=0.9)
        ),
        rule=Rule(in_kind=at_least(0.05)),
        reason=_IN_PATTERNS,
    ),
)
