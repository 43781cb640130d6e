"""The claims of pruning2024's figures 3 and 7: routers and neurons of a layer trained from random weights."""

from __future__ import annotations

import xarray as xr

from moe_lab.pruning import figures
from moe_lab.pruning.published import STATEMENTS
from moe_lab_papers.paper import Paper, budgets, says
from moe_lab_papers.ranges import near, share_from, up_to
from moe_lab_papers.readers import at, reader

paper = Paper("pruning2024", picture="moe_lab.pruning.plots:picture")

_PIXELS = "the paper shows the components as shades, not as numbers"
figure_3 = paper.measure(
    "figure3",
    figures.figure3,
    seconds=(10, 55),
    sees="Figure 3 a to e: a few routers grow large, and those experts' routers and neurons point along their pattern.",
    trials=budgets(35, 200),
)
figure_7 = paper.measure(
    "figure7",
    figures.figure7,
    seconds=(3, 6),
    sees="Figure 7: the same of the experts that vote -.",
    trials=budgets(10, 20),
)


def _of_group(data: xr.Dataset, group: str) -> xr.Dataset:
    """The experts of a group, in the trainings in which one of them is large, as one is in the paper's."""
    mine = data.isel(expert=data["group"].values == group)
    return mine.isel(trial=mine["large"].any("expert").values)


def _with_norm(values: xr.DataArray, mine: xr.Dataset, norms: xr.DataArray) -> xr.DataArray:
    """The value of each trial's expert whose router has a norm."""
    return values.where(mine["router_norm"] == norms).max("expert")


@reader
def large_routers(data: xr.Dataset, group: str) -> xr.DataArray:
    """Returns the least share of a large router's squared norm that is along its pattern."""
    mine = _of_group(data, group)
    return mine["router_share"].where(mine["large"]).min("expert")


@reader
def small_router(data: xr.Dataset, group: str) -> xr.DataArray:
    """Returns the component of the smallest router along its pattern, over the largest one's."""
    mine = _of_group(data, group)
    components, norms = abs(mine["router_own"]), mine["router_norm"]
    return _with_norm(components, mine, norms.min("expert")) / _with_norm(components, mine, norms.max("expert"))


@reader
def large_neurons(data: xr.Dataset, group: str) -> xr.DataArray:
    """Returns the share of large experts' neurons that are large along their pattern."""
    mine = _of_group(data, group)
    return mine["neurons_own"].where(mine["large"]).mean("expert")


@reader
def small_neurons(data: xr.Dataset, group: str) -> xr.DataArray:
    """Returns the share of neurons that are large along their pattern, of the expert with the smallest router."""
    mine = _of_group(data, group)
    return _with_norm(mine["neurons_own"], mine, mine["router_norm"].min("expert"))


@reader
def both_groups(data: xr.Dataset) -> xr.DataArray:
    """Reads 1 where both groups have a large router."""
    return ~data["violated"]


_NAMED = STATEMENTS["synthetic/large-routers"].value
figure_3.claim(
    "figure3/large-routers",
    "a few of 20 routers end with significantly larger norms, above 1.5 log l",
    at("large", sum="expert"),
    says(_NAMED, "are named in the training that is shown").agrees(
        near(_NAMED, (_NAMED * (1 - _NAMED / 20)) ** 0.5)  # one training's: the binomial deviation
    ),
    where="section 5.1, figure 3a",
    unit="routers",
)
figure_3.claim(
    "figure3/both-groups",
    "both groups have routers with significantly larger norms",
    both_groups(),
    says(1, "in the one training that is shown").agrees(share_from(1.0), in_kind=share_from(0.5)),
    "in about a quarter of the trainings one class has no large router: nothing makes sure that a random start has an "
    "important expert for it, which the theory assumes; the paper shows a single training",
    where="section 5.1, figure 3a",
    unit="of the trainings",
)
figure_3.claim(
    "figure3/zero-error",
    "training from the tiny random initialization ends without errors",
    at("test_accuracy"),
    says(1, "zero training error").agrees(share_from(0.999), of="median"),
    where="section 5.1",
    unit="test accuracy",
)

for measured, place, where, group, pattern in (
    (figure_3, "figure3", "section 5.1, figure 3b to e", "+", "o_1"),
    (figure_7, "figure7", "section B.1, figure 7", "-", "o_2"),
):
    measured.claim(
        f"{place}/large-router",
        f"routers with a large norm have a large component along {pattern}",
        large_routers(group),
        says("a large component along it, none elsewhere").in_kind(share_from(0.9)),
        _PIXELS,
        where=where,
        unit="of the squared norm",
    )
    measured.claim(
        f"{place}/small-router",
        f"a small router has no significant component along {pattern}",
        small_router(group),
        says("no significant component").in_kind(up_to(0.1)),
        _PIXELS,
        where=where,
        unit="of the large one's",
    )
    measured.claim(
        f"{place}/large-neurons",
        "a constant fraction of the neurons of experts with a large router have a large component along " + pattern,
        large_neurons(group),
        says("a constant fraction, read as a quarter").in_kind(share_from(0.25)),
        _PIXELS,
        where=where,
        unit="of the neurons",
    )
    measured.claim(
        f"{place}/small-neurons",
        f"neurons of an expert with a small router have no large component along {pattern}",
        small_neurons(group),
        says("none").in_kind(up_to(0.05), of="highest"),  # one neuron of 20, in no training more
        _PIXELS,
        where=where,
        unit="of the neurons",
    )
