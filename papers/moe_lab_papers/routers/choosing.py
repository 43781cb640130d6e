"""What four papers state about who chooses and by which gates, on patches and on a regression of known parameters.

Patches are those of notebook 11: one of 16 decides the class, and every expert has as many places whoever chooses.
"""

from __future__ import annotations

import xarray as xr

from moe_lab.patch_routing import RoutedMoE
from moe_lab.patch_routing.routing_figures import by_capacity
from moe_lab.patch_routing.routing_rows import ROWS
from moe_lab.recovery.gating import gating_rates
from moe_lab_papers.paper import Paper, budgets, says
from moe_lab_papers.readers import reader
from moe_lab_papers.routers.balancing import BETTER

paper = Paper("routers")

_TOKENS, _EXPERTS, _SOFT, _HASH = "token choice", "expert choice", "soft MoE", "hash"
_BY_EXPERTS = RoutedMoE(routing="expert-choice", gates="softmax-before")  # as Zhou et al. print it
_SCALE = "one layer on 16 patches in the place of the paper's transformers"

one_place = paper.measure(
    "one-place-a-patch",
    by_capacity,
    seconds=(4, 12),
    capacity_factor=(1.0,),
    models={_TOKENS: ROWS[_TOKENS], _EXPERTS: _BY_EXPERTS, _SOFT: ROWS[_SOFT]},
    trials=budgets(8, 24),
)
three_places = paper.measure(
    "three-places-a-patch",
    by_capacity,
    seconds=(4, 12),
    capacity_factor=(3.0,),
    models={_TOKENS: ROWS[_TOKENS], _HASH: ROWS[_HASH]},
    trials=budgets(8, 24),
)


@reader
def ahead(data: xr.Dataset, model: str, *others: str) -> xr.DataArray:
    """Returns the accuracy of a routing less the best of others."""
    right = data["test_accuracy"].squeeze("capacity_factor", drop=True)
    return right.sel(model=model) - right.sel(model=list(others)).mean("trial").max("model")


one_place.claim(
    "zhou2022/ahead-of-token-choice",
    "At one place for each patch, experts that choose their patches have more right, by a point or more, than patches "
    "that choose an expert",
    ahead(_EXPERTS, _TOKENS),
    says("better at a capacity factor of 1, and of .5, than top-1 routing").in_kind(BETTER),
    not_comparable=f"{_SCALE}; patches have no balancing loss here, and half of them find no place",
    where="Zhou et al. 2022, comparison with top-1 routing at equal computation",
)
one_place.claim(
    "softmoe2024/ahead-of-both",
    "Soft slots have more right, by a point or more, than patches that choose and than experts that do",
    ahead(_SOFT, _TOKENS, _EXPERTS),
    says("greatly outperforms tokens choice and experts choice").in_kind(BETTER),
    not_comparable=f"{_SCALE}: experts that choose are right on nearly all samples, so that nothing is left to gain; "
    "soft slots come as near, and are 20 points and more ahead of patches that choose",
    where="Puigcerver et al. 2024, abstract",
)
three_places.claim(
    "hash2021/competitive",
    "With room for everybody a hash is competitive with patches that choose an expert: two points behind at most",
    ahead(_HASH, _TOKENS),
    says("outperforms or is competitive with learning to route, as Switch does").in_kind((-0.02, 1.0)),
    not_comparable=f"{_SCALE}: the paper hashes words, whose identity noise does not change; here the signs of random "
    "projections of a patch are hashed, and noise changes them. That is most of why: without noise it is between 14 "
    "points behind and 4 ahead at eight seeds, 4 behind on average, and with noise 6 to 22 behind",
    where="Roller et al. 2021, abstract",
)

rates = paper.measure(
    "gates",
    gating_rates,
    seconds=(3, 40),
    samples=budgets((500, 2000), (500, 2000, 8000)),
    fitted=(3,),
    trials=budgets(10, 20),
)


@reader
def error_of_sigmoid(data: xr.Dataset) -> float:
    """Returns the median error of the experts with sigmoid gates over that with softmax gates, at the largest n."""
    error = data["expert_error"].isel(fitted=0, samples=-1).median("trial")
    return float(error.sel(gate="sigmoid") / error.sel(gate="softmax"))


rates.claim(
    "nguyen2024/fewer-samples",
    "With one expert too many fitted, sigmoid gates find the experts with a smaller error than softmax gates from as "
    "many samples",
    error_of_sigmoid(),
    says("a smaller sample size for the same error of the experts").in_kind((0.0, 1.0)),
    "theorems are on rates for large n, and each kind of gate has data of its own. The sigmoid's error is 1.7 to 4.4 "
    "times as large at n = 2,000, at eight seeds; rates are .4 to .5 for both at n up to 8,000, and 10 trials do not "
    "tell them apart",
    where="Nguyen et al. 2024, abstract and section 3",
    unit="times the softmax's error",
)
