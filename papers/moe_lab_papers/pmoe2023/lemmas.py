"""The claims of pmoe2023 about its lemmas E.2 to I.4, about appendix M, router samples and spurious correlations.

The lemmas hide their constants. What is judged has none: shares that they bound, powers of l, and what the proofs
compute before a constant enters, which are the gradient's part along o and the first order of a step's decrease.
Appendix F has definitions, and theorems 4.2 to 4.5 in full, which are claims of `theorems`. Lemmas G.2, H.2 and I.2
are G.3, H.3 and I.3 for values that do not depend on the weights; judged is the first step of their proofs. Lemmas J.1
and J.2 are another paper's. Figures 1 to 3 are `moe_lab.patch_routing.figures.illustrations`; figure 19 is figure 2 for
four classes.
"""

from __future__ import annotations

from functools import partial

import xarray as xr

from moe_lab_papers.claim import (
    Claim,
    Measurement,
    Published,
    Read,
    Rule,
    at_least,
    half_to_double,
    near,
    nearer,
    selected,
    share_from,
)
from moe_lab_papers.pmoe2023.sources import LEMMAS, MEASURES

STEPS = Measurement.sized(
    name="pmoe2023/lemmas-steps",
    function=f"{LEMMAS}:lemma_steps",
    sizes={"neurons": ((400,), (200, 400, 800)), "trials": (5, 6), "steps": (3, 8)},
    seconds=(26, 120),
)
DECREASE = Measurement.sized(
    name="pmoe2023/lemmas-decrease",
    function=f"{LEMMAS}:decrease_by_patches",
    sizes={"trials": (10, 12), "neurons": (200, 400), "samples": (400, 2000)},
    seconds=(10, 120),
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
    sizes={"knob": ("classes", "classes"), "values": ((4,), (4,)), "samples": (3200, 3200), "trials": (3, 8)},
    seconds=(8, 22),
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
_JUMPS = {
    "separate": "",
    "joint": "a moving router takes other patches into its top l, and the loss jumps, which its gradient does not show "
    "and the proof does not treat; by hidden weights alone it falls as predicted in every step",
    "cnn": "",
}


def _of_steps(
    name: str, model: str, number: int, statement: str, published: Published, rule: Rule, reason: str
) -> Claim:
    """A claim about every step: for the number of neurons that shows it least, or for all in the mean."""

    def read(data: xr.Dataset) -> xr.DataArray:
        values = data[name].sel(model=model)
        return values.mean("neurons") if name == "along" else values.min("neurons")

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
        size = "n" if model == "cnn" else "l"
        found += [
            _of_steps(
                "along",
                model,
                2,
                f"neurons with <w_r, o> of the other sign have another P_r, by v_s / {size} along o_1 and by "
                f"-v_s / {size} along o_2: the measured over the stated difference",
                Published(value=1, relation=f"of v_s / {size}, where the proof derives phi and l by alpha"),
                Rule(agrees=near(1, 0.1), in_kind=half_to_double(1)),
                "",
            ),
            _of_steps(
                "falls",
                model,
                4,
                f"each step lowers the expected loss by eta m gamma^3 v^2 / {size}^2 or more: share of the steps",
                Published(value=1, relation="with high probability"),
                Rule(agrees=share_from(0.95), in_kind=share_from(nearer(1, 0.5))),
                _JUMPS[model],
            ),
            _of_steps(
                "predicted",
                model,
                4,
                "each step lowers the expected loss by eta times the product of batch gradient and expected gradient, "
                "with which the proof begins, up to a tenth: share of the steps",
                Published(value=1, relation="to first order in eta"),
                Rule(agrees=share_from(0.95), in_kind=share_from(nearer(1, 0.5))),
                _JUMPS[model],
            ),
            Claim(
                id=f"pmoe2023/lemma{_LETTER[model]}.4/power-of-l",
                where=f"lemma {_LETTER[model]}.4",
                statement=f"in {_NAMES[model]}, the decrease in a step over v^2 falls as 1 / {size}^2 at most",
                published=Published(value=-2, bound="at least", relation=f"power of {size}"),
                measurement=DECREASE,
                read=selected("power", model=model),
                rule=Rule(agrees=(-2.2, 0.0)),  # a tenth for the trials' scatter; it does fall
                unit=f"power of {size}",
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
        published=Published(relation="N_r < N"),
        measurement=ROUTER_SAMPLES,
        read=lambda data: data["test_accuracy"].sel(router_samples=100) - data["test_accuracy"].sel(router_samples=200),
        rule=Rule(in_kind=near(0, 0.025)),  # three standard errors of twelve trials
        reason="the paper has no number for how many are enough",
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
                "how many are enough is not known: it has .8 from 400 samples, .98 from 3,200 and .994 from 9,600, "
                "where joint training has .98 from 200",
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
            not_comparable=shown,
        )
        for model, shown in (
            ("joint", _IN_PATTERNS),
            (
                "separate",
                f"{_IN_PATTERNS}, and figure 11 has joint training alone; a separately trained router follows the "
                "mean of y times all patches, which contains the spurious pattern as it does o, and so keeps it",
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
        not_comparable=_IN_PATTERNS,
    ),
)
