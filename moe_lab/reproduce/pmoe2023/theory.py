"""The claims of pmoe2023's sections 4.1 to 4.3 and appendices E, K, M and N: what it proves, computed and tried out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import xarray as xr

from moe_lab.reproduce.claim import Claim, Measurement, Published, Rule, at_least, at_most, near

_MEASURES = "moe_lab.reproduce.pmoe2023.measures"
_PICTURE = "moe_lab.patch_routing.plots:picture"
_SIZES = {"patches": 16, "patches_per_expert": 6, "experts": 8, "neurons": 40}
_N, _L, _K = 16, 6, 8


def _measured(name: str, function: str, seconds: tuple[float, float], **more: Any) -> Measurement:
    return Measurement(f"pmoe2023/{name}", f"{_MEASURES}:{function}", seconds=seconds, **more)


BOUNDS = _measured("bounds", "bounds", (1, 1), quick=_SIZES, full=_SIZES, seeded=False)
_STEP = {"patches": _N, "patches_per_expert": _L, "neurons": 40}
STEP = _measured("table1-step", "step_operations", (2, 2), quick=_STEP, full=_STEP, seeded=False)
ROUTERS = _measured(
    "lemma4.1",
    "separate_routers",
    (2, 10),
    quick={"patches_per_expert": (1, 4, 5, 6, 8, 16), "samples": (60, 300, 2000), "trials": 8},
    full={"patches_per_expert": (1, 4, 5, 6, 8, 16), "samples": (60, 300, 1000, 4000), "trials": 20},
    device=True,
    picture=_PICTURE,
    sees="With enough samples o is in the top l for every sample from l = l* = 5 on, and for half of them at l = 4.",
)
FOUR_CLASSES = _measured(
    "appendixM-routers",
    "separate_routers",
    (2, 10),
    quick={"patches_per_expert": (4, 5, 8), "samples": (60, 2000), "trials": 8, "classes": 4},
    full={"patches_per_expert": (4, 5, 8), "samples": (60, 1000, 4000), "trials": 20, "classes": 4},
    device=True,
)
KEPT = _measured(
    "finding1-kept",
    "kept_background",
    (1, 2),
    quick={"samples": 2000, "trials": 8},
    full={"samples": 4000, "trials": 20},
    device=True,
)
GRADIENT = _measured(
    "lemmaE.1",
    "router_gradient",
    (4, 15),
    quick={"samples": (250, 1000, 4000), "trials": 60},
    full={"samples": (250, 1000, 4000, 16000), "trials": 60},
)
GATES = Measurement(
    "pmoe2023/assumption4.4",
    "moe_lab.patch_routing.figures:joint_routers",
    quick={"source": "patterns", "samples": (20, 60, 1000), "trials": 8},
    full={"source": "patterns", "samples": (20, 60, 200, 1000), "trials": 40},
    seconds=(3, 12),
    device=True,
    picture=_PICTURE,
    sees="On patterns the deciding patch gets the largest gate of an expert in every sample once there are enough.",
)
BY_PATCHES = _measured(
    "theorems-by-n",
    "accuracy_by_knob",
    (12, 40),
    quick={"knob": "patches", "values": (16, 64), "samples": 200, "trials": 8},
    full={"knob": "patches", "values": (16, 64), "samples": 200, "trials": 30},
    split=("values", "patches"),
    device=True,
)
_LITTLE_GAP = {"gap": 0.3}  # the largest at which patterns exist for every delta_d
BY_OVERLAP = _measured(
    "finding3-by-overlap",
    "accuracy_by_knob",
    (3, 15),
    quick={"knob": "delta_d", "values": (-0.8, 0.8), "samples": 200, "trials": 8, "task": _LITTLE_GAP},
    full={"knob": "delta_d", "values": (-0.8, 0.0, 0.8), "samples": 200, "trials": 30, "task": _LITTLE_GAP},
    device=True,
)
HYPERPLANES = _measured(
    "lemmaK.1",
    "hyperplanes",
    (3, 60),
    quick={"pattern_sets": (16, 256), "samples": 1000, "trials": 4},
    full={"pattern_sets": (16, 256), "samples": 4000, "trials": 10},
    split=("pattern_sets", "pattern_sets"),
)


def _advantage(quantity: str, kind: str) -> Callable[[xr.Dataset], xr.DataArray]:
    return lambda data: data["advantage"].sel(quantity=quantity, kind=kind)


def _exactly(value: float) -> Rule:
    return Rule(near(value, 1e-9 * value))


def _bound(
    name: str, words: str, value: float, read: Callable[[xr.Dataset], xr.DataArray], reason: str = "", rule: Any = None
) -> Claim:
    """A claim about bounds at n = 16, l = 6, k = 8, the sizes of section 5.1."""
    where = {"theorem4.2": "after theorem 4.3", "theorem4.5": "after theorem 4.5", "table1": "table 1 and appendix N"}
    published = Published(value, relation=words.rsplit(": ", 1)[1])
    rule = rule or _exactly(value)
    place = where[name.split("/", maxsplit=1)[0]]
    statement = words.rsplit(": ", 1)[0] + f", at n = {_N}, l = {_L}, k = {_K}"
    return Claim(f"pmoe2023/{name}", place, statement, published, BOUNDS, read, rule, reason)


_BOUNDS = (
    _bound("theorem4.2/samples-ratio", "the CNN's bound of N over separate training's: (n/l)^8",
           (_N / _L) ** 8, _advantage("samples", "separate")),
    _bound("theorem4.2/neurons-ratio", "the CNN's bound of m over separate training's: (n/l)^10",
           (_N / _L) ** 10, _advantage("neurons", "separate")),
    _bound("theorem4.5/samples-ratio", "the CNN's bound of N over joint training's: n^8 / (k^4 l^6)",
           _N**8 / (_K**4 * _L**6), _advantage("samples", "joint")),
    _bound("theorem4.5/neurons-ratio", "the CNN's bound of m over joint training's: n^10 / (k^3 l^6)",
           _N**10 / (_K**3 * _L**6), _advantage("neurons", "joint"),
           "the bound M_J of theorem 4.5 itself holds n^2, so that the ratio is n^8 / (k^3 l^6)"),
    _bound("theorem4.5/error-by-k", "at fixed N the error of joint training grows as a power of k: k^(1/4)",
           0.25, lambda data: data["error_power"].sel(symbol="k")),
    _bound("theorem4.5/error-by-l", "at fixed N the error of joint training grows as a power of l: l^(3/8)",
           0.375, lambda data: data["error_power"].sel(symbol="l")),
    _bound("table1/separate-total", "operations until error eps, the CNN's over separate training's: n^5 / l^5",
           (_N / _L) ** 5, lambda data: data["total"].sel(kind="separate")),
    _bound("table1/joint-total", "operations until error eps, the CNN's over joint training's: n^5 / (k^2 l^3)",
           _N**5 / (_K**2 * _L**3), lambda data: data["whole"].sel(kind="joint"),
           "table 1's own rows for the routers, B k n d and B k l^2 d, are left out of its first row: at the paper's "
           "m = 40 they cost more than the experts, and the advantage is a third of the one printed",
           Rule(near(_N**5 / (_K**2 * _L**3), 0.05 * _N**5 / (_K**2 * _L**3)), at_least(1.0))),
)  # fmt: skip


def _by_patches(kind: str, rule: Rule, words: str, reason: str) -> Claim:
    """How accuracy from 200 samples changes from n = 16 to n = 64 patches."""
    theorem = {"cnn": "4.3", "separate": "4.2", "joint": "4.5"}[kind]
    bound = {"cnn": "N_C grows as n^8", "separate": "N_S holds no n", "joint": "N_J holds no n"}[kind]

    def read(data: xr.Dataset) -> xr.DataArray:
        accuracy = data["test_accuracy"].sel(model=kind)
        return accuracy.sel(patches=64) - accuracy.sel(patches=16)

    return Claim(f"pmoe2023/theorem{theorem}/{kind}-by-patches", f"theorem {theorem}", words,
                 Published(relation=bound), BY_PATCHES, read, rule, reason, "accuracy")  # fmt: skip


def _separable(sets: int, reason: str) -> Claim:
    """Lemma K.1 at d = 32, for p sets of irrelevant patterns."""

    def read(data: xr.Dataset) -> xr.DataArray:
        return data["test_accuracy"].sel(pattern_sets=sets)

    words = f"with l* = 7 no hyperplane separates the classes, in d = 32 dimensions with p = {sets} pattern sets"
    published = Published(relation="the distribution is not linearly separable as long as l* = Omega(1)")
    return Claim(f"pmoe2023/lemmaK.1/{sets}-pattern-sets", "lemma K.1 and section 4.2", words, published, HYPERPLANES,
                 read, Rule(at_most(0.95)), reason, "test accuracy of the best hyperplane")  # fmt: skip


_DISCRIMINATIVE = Published(1.0, relation="for all samples, with high probability")
_FIXED_SIZES = "accuracy from 200 samples of patterns in place of a bound, which has no constant"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "pmoe2023/lemma4.1/from-l-star-on",
        "lemma 4.1",
        "for every l from l* on, the separately trained routers send o_1 to expert 1 and o_2 to expert 2",
        _DISCRIMINATIVE,
        ROUTERS,
        lambda data: (
            data["coverage"]
            .isel(samples=-1)
            .sel(patches_per_expert=data["patches_per_expert"] >= 5)
            .min(("class", "patches_per_expert"))
        ),
        Rule(at_least(1.0), of="lowest"),
        unit="share",
    ),
    Claim(
        "pmoe2023/lemma4.1/below-l-star",
        "section 4.3, after lemma 4.1",
        "it is l >= l* that ensures it: with one patch fewer, samples with l* - 1 closer patterns lose o",
        Published(relation="at most l* - 1 patches are closer, so that sending l >= l* ensures that one is o"),
        ROUTERS,
        lambda data: data["coverage"].isel(samples=-1).sel(patches_per_expert=4).min("class"),
        Rule(at_most(0.9)),
        unit="share",
    ),
    Claim(
        "pmoe2023/appendixM/four-classes",
        "appendix M.1, lemma 4.1 for c classes",
        "routers trained in pairs send every class's pattern to the class's expert, with four classes and l = l*",
        _DISCRIMINATIVE,
        FOUR_CLASSES,
        lambda data: data["coverage"].isel(samples=-1).sel(patches_per_expert=5).min("class"),
        Rule(at_least(1.0), of="lowest"),
        unit="share",
    ),
    Claim(
        "pmoe2023/finding1/far-patterns-dropped",
        "section 4.1, finding I",
        "irrelevant patterns that are far from the class patterns are not routed to any expert",
        Published(0.0),
        KEPT,
        lambda data: data["kept"].sel(role="background").mean("expert"),
        Rule(at_most(0.0)),
        "an expert always keeps l patches, and no sample has l* - 1 closer ones for both: the other places are filled "
        "with far ones; lemma 4.1 does not say otherwise",
        "far patches in an expert",
    ),
    Claim(
        "pmoe2023/lemmaE.1/direction",
        "lemma E.1",
        "the expected gradient of the routers' loss lies along o_1 - o_2",
        Published(1.0, relation="in expectation"),
        GRADIENT,
        lambda data: data["cosine"].isel(samples=-1),
        Rule(at_least(0.99)),
        unit="cosine at the largest N",
    ),
    Claim(
        "pmoe2023/lemmaE.3/concentration",
        "proof of lemma E.3",
        "the gradient over B samples is within O(n / sqrt(B)) of its expectation (o_1 - o_2)/2",
        Published(-0.5, relation="power of B"),
        GRADIENT,
        lambda data: data["power"],
        Rule(near(-0.5, 0.1)),
        unit="power of B",
    ),
    Claim(
        "pmoe2023/assumption4.4/largest-gate",
        "assumption 4.4 and section 5.1",
        "after joint training one expert of each class gives its class's pattern the largest gate, in every sample",
        Published(1.0, relation="assumed, and verified empirically"),
        GATES,
        lambda data: data["largest_gate"].isel(samples=-1).min("class"),
        Rule(at_least(0.999), at_least(0.9), "median"),
        "it holds for nearly all samples of noisy patterns",
        "share",
    ),
    *_BOUNDS,
    Claim(
        "pmoe2023/table1/separate-step",
        "table 1, complexity per iteration",
        "a step of separate training costs B m l d, l/n of a step of the CNN",
        Published(_N / _L, relation="the CNN's operations over separate training's"),
        STEP,
        lambda data: data["operations"].sel(kind="cnn") / data["operations"].sel(kind="separate"),
        Rule(near(_N / _L, 0.02 * _N / _L)),
    ),
    _by_patches(
        "cnn",
        Rule(None, at_most(-0.1)),
        "with more patches the CNN needs more samples: from the same number its accuracy falls",
        _FIXED_SIZES,
    ),
    _by_patches(
        "separate",
        Rule(None, at_least(-0.1)),
        "the experts of separate training need no more samples when there are more patches",
        _FIXED_SIZES,
    ),
    _by_patches(
        "joint",
        Rule(None, at_least(-0.1)),
        "joint training needs no more samples when there are more patches",
        _FIXED_SIZES,
    ),
    Claim(
        "pmoe2023/finding3/separation",
        "section 4.1, finding III",
        "separate training does better when o_1 and o_2 are further apart, at -.8 than at .8",
        Published(relation="larger separation among class-discriminative patterns reduces the sample complexity"),
        BY_OVERLAP,
        lambda data: (
            data["test_accuracy"].sel(model="separate", delta_d=-0.8)
            - data["test_accuracy"].sel(model="separate", delta_d=0.8)
        ),
        Rule(None, at_least(0.0)),
        _FIXED_SIZES,
        "accuracy",
    ),
    Claim(
        "pmoe2023/eq9/opposite-patterns",
        "eq. 9 and the text below it",
        "delta decreases as o_1 and o_2 are moved apart, from delta_d = 0 to -.8",
        Published(relation="delta decreases if o_1 and o_2 are more separated from each other"),
        BOUNDS,
        lambda data: data["delta"].sel(delta_d=-0.8) - data["delta"].sel(delta_d=0.0),
        Rule(at_most(0.0)),
        "eq. 9 has delta_d squared, so that delta grows towards both ends",
    ),
    _separable(256, ""),
    _separable(
        16,
        "with p < d - 2 a hyperplane can take the same value on every irrelevant pattern, so that they cancel: the "
        "proof looks only at those in the plane of o_1 and o_2",
    ),
)
