"""The claims of pmoe2023's sections 4.1 to 4.3 and appendices E, K, M and N: its theorems, computed and tested."""

from __future__ import annotations

from functools import partial

import xarray as xr

from moe_lab_papers.claim import (
    ROUNDING,
    Claim,
    Measurement,
    Published,
    Rule,
    at_least,
    at_most,
    near,
    share_from,
    up_to,
)
from moe_lab_papers.pmoe2023.sources import FIGURES, MEASURES, PICTURE

ROUTERS = Measurement(
    name="pmoe2023/lemma4.1",
    function=f"{MEASURES}:separate_routers",
    seconds=(2, 10),
    quick={"patches_per_expert": (1, 4, 5, 6, 8, 16), "samples": (60, 300, 2000), "trials": 8},
    full={"patches_per_expert": (1, 4, 5, 6, 8, 16), "samples": (60, 300, 1000, 4000), "trials": 20},
    device=True,
    picture=PICTURE,
    sees="With enough samples o is in the top l for every sample from l = l* = 5 on, and for half of them at l = 4.",
)
FOUR_CLASSES = Measurement(
    name="pmoe2023/appendixM-routers",
    function=f"{MEASURES}:separate_routers",
    seconds=(2, 10),
    quick={"patches_per_expert": (4, 5, 8), "samples": (60, 2000), "trials": 8, "classes": 4},
    full={"patches_per_expert": (4, 5, 8), "samples": (60, 1000, 4000), "trials": 20, "classes": 4},
    device=True,
)
KEPT = Measurement.sized(
    name="pmoe2023/finding1-kept",
    function=f"{MEASURES}:kept_patches",
    seconds=(1, 2),
    sizes={"samples": (2000, 4000), "trials": (8, 20)},
    device=True,
)
GRADIENT = Measurement(
    name="pmoe2023/lemmaE.1",
    function=f"{MEASURES}:router_gradient",
    seconds=(4, 15),
    quick={"samples": (250, 1000, 4000), "trials": 60},
    full={"samples": (250, 1000, 4000, 16000), "trials": 60},
)
GATES = Measurement(
    name="pmoe2023/assumption4.4",
    function=f"{FIGURES}:joint_routers",
    quick={"source": "patterns", "samples": (20, 60, 1000), "trials": 8},
    full={"source": "patterns", "samples": (20, 60, 200, 1000), "trials": 40},
    seconds=(2, 12),
    device=True,
    picture=PICTURE,
    sees="On patterns the deciding patch gets the largest gate of an expert in every sample once there are enough.",
)
BY_PATCHES = Measurement(
    name="pmoe2023/theorems-by-n",
    function=f"{MEASURES}:accuracy_by_knob",
    seconds=(14, 40),
    quick={"knob": "patches", "values": (16, 64), "samples": 200, "trials": 12},
    full={"knob": "patches", "values": (16, 64), "samples": 200, "trials": 30},
    split=("values", "patches"),
    device=True,
)
_LITTLE_GAP = {"gap": 0.3}  # the largest at which patterns exist for every delta_d
BY_OVERLAP = Measurement(
    name="pmoe2023/finding3-by-overlap",
    function=f"{MEASURES}:accuracy_by_knob",
    seconds=(3, 15),
    quick={"knob": "delta_d", "values": (-0.8, 0.8), "samples": 200, "trials": 8, "task": _LITTLE_GAP},
    full={"knob": "delta_d", "values": (-0.8, 0.0, 0.8), "samples": 200, "trials": 30, "task": _LITTLE_GAP},
    device=True,
)
HYPERPLANES = Measurement(
    name="pmoe2023/lemmaK.1",
    function=f"{MEASURES}:separability",
    seconds=(0.3, 60),
    quick={"pattern_sets": (16, 256), "samples": 1000, "trials": 4},
    full={"pattern_sets": (16, 256), "samples": 4000, "trials": 10},
    split=("pattern_sets", "pattern_sets"),
)


def _by_patches(kind: str, rule: Rule, words: str, reason: str) -> Claim:
    """How accuracy from 200 samples changes from n = 16 to n = 64 patches."""
    theorem = {"cnn": "4.3", "separate": "4.2", "joint": "4.5"}[kind]
    bound = {"cnn": "N_C grows as n^8", "separate": "N_S contains no n", "joint": "N_J contains no n"}[kind]

    def read(data: xr.Dataset) -> xr.DataArray:
        accuracy = data["test_accuracy"].sel(model=kind)
        return accuracy.sel(patches=64) - accuracy.sel(patches=16)

    return Claim(
        id=f"pmoe2023/theorem{theorem}/{kind}-by-patches",
        where=f"theorem {theorem}",
        statement=words,
        published=Published(relation=bound),
        measurement=BY_PATCHES,
        read=read,
        rule=rule,
        reason=reason,
        unit="accuracy",
    )


def _separable(sets: int, reason: str) -> Claim:
    """Lemma K.1 at d = 32, for p sets of irrelevant patterns."""

    def read(data: xr.Dataset) -> xr.DataArray:
        return data["separable"].sel(pattern_sets=sets)

    words = f"with l* = 7 no hyperplane separates the classes, in d = 32 dimensions with p = {sets} pattern sets"
    published = Published(value=0, relation="the distribution is not linearly separable as long as l* = Omega(1)")
    return Claim(
        id=f"pmoe2023/lemmaK.1/{sets}-pattern-sets",
        where="lemma K.1 and section 4.2",
        statement=words,
        published=published,
        measurement=HYPERPLANES,
        read=read,
        rule=Rule(agrees=up_to(ROUNDING), of="highest"),
        reason=reason,
        unit="of the samples are separated",
    )


_DISCRIMINATIVE = Published(value=1.0, relation="for all samples, with high probability")
_FIXED_SIZES = "accuracy from 200 samples of patterns in place of a bound, which has no constant"

_routers = partial(Claim, measurement=ROUTERS, unit="share")
CLAIMS: tuple[Claim, ...] = (
    _routers(
        id="pmoe2023/lemma4.1/from-l-star-on",
        where="lemma 4.1",
        statement="for every l from l* on, the separately trained routers send o_1 to expert 1 and o_2 to expert 2",
        published=_DISCRIMINATIVE,
        read=lambda data: (
            data["coverage"]
            .isel(samples=-1)
            .sel(patches_per_expert=data["patches_per_expert"] >= 5)
            .min(("class", "patches_per_expert"))
        ),
        rule=Rule(agrees=share_from(1.0), of="lowest"),
    ),
    _routers(
        id="pmoe2023/lemma4.1/below-l-star",
        where="section 4.3, after lemma 4.1",
        statement="it is l >= l* that ensures it: with one patch fewer, samples with l* - 1 closer patterns lose o",
        published=Published(
            relation="at most l* - 1 patches are closer, so that sending l >= l* ensures that one is o"
        ),
        read=lambda data: data["coverage"].isel(samples=-1).sel(patches_per_expert=4).min("class"),
        rule=Rule(in_kind=at_most(0.9)),
        reason="the paper has no number for how often o is lost",
    ),
    Claim(
        id="pmoe2023/appendixM/four-classes",
        where="appendix M.1, lemma 4.1 for c classes",
        statement="routers trained in pairs send every class's pattern to the class's expert, with four classes and l "
        "= l*",
        published=_DISCRIMINATIVE,
        measurement=FOUR_CLASSES,
        read=lambda data: data["coverage"].isel(samples=-1).sel(patches_per_expert=5).min("class"),
        rule=Rule(agrees=share_from(1.0), of="lowest"),
        unit="share",
    ),
    Claim(
        id="pmoe2023/finding1/far-patterns-dropped",
        where="section 4.1, finding I",
        statement="irrelevant patterns that are far from the class patterns are not routed to an expert in place of a "
        "closer one",
        published=Published(value=0.0),
        measurement=KEPT,
        read=lambda data: data["displaced"].max("expert"),
        rule=Rule(agrees=near(0.0, 1e-5), of="highest"),  # one patch of 1000 samples is .001; the rest is rounding
        unit="closer patches of a sample that an expert loses to far ones",
    ),
    Claim(
        id="pmoe2023/lemmaE.1/direction",
        where="lemma E.1",
        statement="the expected gradient of the routers' loss lies along o_1 - o_2",
        published=Published(value=1.0, relation="in expectation"),
        measurement=GRADIENT,
        read=lambda data: data["cosine"].isel(samples=-1),
        rule=Rule(agrees=share_from(0.99)),
        unit="cosine at the largest N",
    ),
    Claim(
        id="pmoe2023/lemmaE.3/concentration",
        where="proof of lemma E.3",
        statement="the gradient over B samples is within O(n / sqrt(B)) of its expectation (o_1 - o_2)/2",
        published=Published(value=-0.5, relation="power of B"),
        measurement=GRADIENT,
        read=lambda data: data["power"],
        rule=Rule(agrees=near(-0.5, 0.1)),
        unit="power of B",
    ),
    Claim(
        id="pmoe2023/assumption4.4/largest-gate",
        where="assumption 4.4 and section 5.1",
        statement="after joint training one expert of each class gives its class's pattern the largest gate, in every "
        "sample",
        published=Published(value=1.0, relation="assumed, and verified empirically"),
        measurement=GATES,
        read=lambda data: data["largest_gate"].isel(samples=-1).min("class"),
        rule=Rule(agrees=share_from(0.999), in_kind=share_from(0.9), of="median"),
        reason="it holds for nearly all samples of noisy patterns",
        unit="share",
    ),
    _by_patches(
        kind="cnn",
        rule=Rule(in_kind=at_most(-0.1)),
        words="with more patches the CNN needs more samples: from the same number its accuracy falls",
        reason=_FIXED_SIZES,
    ),
    _by_patches(
        kind="separate",
        rule=Rule(in_kind=near(0.0, 0.1)),  # three standard errors of eight trials, some of which fail
        words="the experts of separate training need no more samples when there are more patches",
        reason=_FIXED_SIZES,
    ),
    _by_patches(
        kind="joint",
        rule=Rule(in_kind=near(0.0, 0.03)),  # three standard errors of eight trials
        words="joint training needs no more samples when there are more patches",
        reason=_FIXED_SIZES,
    ),
    Claim(
        id="pmoe2023/finding3/separation",
        where="section 4.1, finding III",
        statement="separate training does better when o_1 and o_2 are further apart, at -.8 than at .8",
        published=Published(
            relation="larger separation among class-discriminative patterns reduces the sample complexity"
        ),
        measurement=BY_OVERLAP,
        read=lambda data: (
            data["test_accuracy"].sel(model="separate", delta_d=-0.8)
            - data["test_accuracy"].sel(model="separate", delta_d=0.8)
        ),
        rule=Rule(in_kind=at_least(0.03)),  # three standard errors of eight trials
        reason=_FIXED_SIZES,
        unit="accuracy",
    ),
    _separable(256, ""),
    _separable(
        16,
        "with p < d - 2 a hyperplane can take the same value on every irrelevant pattern, so that they cancel: the "
        "proof looks only at those in the plane of o_1 and o_2",
    ),
)
