"""What four papers state about who chooses and by which gates, on patches and on a regression of known parameters.

Patches are those of notebook 11: one of 16 decides the class, and every expert has as many places whoever chooses.
"""

from __future__ import annotations

import xarray as xr

from moe_lab.patch_routing import RoutedMoE
from moe_lab.patch_routing.routing_rows import ROWS
from moe_lab_papers.claim import Claim, Measurement, Published, Read, Rule
from moe_lab_papers.routers.sources import BETTER, CHOICES, GATES

_TOKENS, _EXPERTS, _SOFT, _HASH = "token choice", "expert choice", "soft MoE", "hash"
_MODELS = {
    _TOKENS: ROWS[_TOKENS],
    _EXPERTS: RoutedMoE(routing="expert-choice", gates="softmax-before"),  # as Zhou et al. print it
    _SOFT: ROWS[_SOFT],
    _HASH: ROWS[_HASH],
}
_SCALE = "one layer on 16 patches in the place of the paper's transformers"


def _routings(name: str, models: tuple[str, ...], factor: float, seconds: tuple[float, float]) -> Measurement:
    call = {"capacity_factor": (factor,), "models": {model: _MODELS[model] for model in models}}
    return Measurement(
        name=f"routers/{name}",
        function=f"{CHOICES}:by_capacity",
        quick={**call, "trials": 8},
        full={**call, "trials": 24},
        seconds=seconds,
        device=True,
    )


ONE_PLACE = _routings("one-place-a-patch", (_TOKENS, _EXPERTS, _SOFT), 1.0, (4, 12))
THREE_PLACES = _routings("three-places-a-patch", (_TOKENS, _HASH), 3.0, (4, 12))
RATES = Measurement(
    name="routers/gates",
    function=f"{GATES}:gating_rates",
    quick={"samples": (500, 2000), "fitted": (3,), "trials": 10},
    full={"samples": (500, 2000, 8000), "fitted": (3,), "trials": 20},
    seconds=(3, 40),
)


def _ahead(model: str, *others: str) -> Read:
    """Returns a function that reads how much more a routing has right than the best of others."""

    def read(data: xr.Dataset) -> xr.DataArray:
        right = data["test_accuracy"].squeeze("capacity_factor", drop=True)
        return right.sel(model=model) - right.sel(model=list(others)).mean("trial").max("model")

    return read


def _error_of_sigmoid(data: xr.Dataset) -> float:
    """The median error of the experts with sigmoid gates over that with softmax gates, at the largest n."""
    error = data["expert_error"].isel(fitted=0, samples=-1).median("trial")
    return float(error.sel(gate="sigmoid") / error.sel(gate="softmax"))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="routers/zhou2022/ahead-of-token-choice",
        where="Zhou et al. 2022, comparison with top-1 routing at equal computation",
        statement="At one place for each patch, experts that choose their patches have more right, by a point or more, "
        "than patches that choose an expert",
        published=Published(relation="better at a capacity factor of 1, and of .5, than top-1 routing"),
        measurement=ONE_PLACE,
        read=_ahead(_EXPERTS, _TOKENS),
        rule=Rule(in_kind=BETTER),
        not_comparable=f"{_SCALE}; patches have no balancing loss here, and half of them find no place",
    ),
    Claim(
        id="routers/softmoe2024/ahead-of-both",
        where="Puigcerver et al. 2024, abstract",
        statement="Soft slots have more right, by a point or more, than patches that choose and than experts that do",
        published=Published(relation="greatly outperforms tokens choice and experts choice"),
        measurement=ONE_PLACE,
        read=_ahead(_SOFT, _TOKENS, _EXPERTS),
        rule=Rule(in_kind=BETTER),
        not_comparable=f"{_SCALE}: experts that choose are right on nearly all samples, so that nothing is left to "
        "gain; soft slots come as near, and are 20 points and more ahead of patches that choose",
    ),
    Claim(
        id="routers/hash2021/competitive",
        where="Roller et al. 2021, abstract",
        statement="With room for everybody a hash is competitive with patches that choose an expert: two points behind "
        "at most",
        published=Published(relation="outperforms or is competitive with learning to route, as Switch does"),
        measurement=THREE_PLACES,
        read=_ahead(_HASH, _TOKENS),
        rule=Rule(in_kind=(-0.02, 1.0)),
        not_comparable=f"{_SCALE}: the paper hashes words, whose identity noise does not change; here the signs of "
        "random projections of a patch are hashed, and noise changes them. That is most of why: without noise it is "
        "between 14 points behind and 4 ahead at eight seeds, 4 behind on average, and with noise 6 to 22 behind",
    ),
    Claim(
        id="routers/nguyen2024/fewer-samples",
        where="Nguyen et al. 2024, abstract and section 3",
        statement="With one expert too many fitted, sigmoid gates find the experts with a smaller error than softmax "
        "gates from as many samples",
        published=Published(relation="a smaller sample size for the same error of the experts"),
        measurement=RATES,
        read=_error_of_sigmoid,
        rule=Rule(in_kind=(0.0, 1.0)),
        reason="theorems are on rates for large n, and each kind of gate has data of its own. The sigmoid's error is "
        "1.7 to 4.4 times as large at n = 2,000, at eight seeds; rates are .4 to .5 for both at n up to 8,000, and 10 "
        "trials do not tell them apart",
        unit="times the softmax's error",
    ),
)
