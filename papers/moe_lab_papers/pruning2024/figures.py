"""The claims of pruning2024's figures 3 and 7: routers and neurons of a layer trained from random weights."""

from __future__ import annotations

from functools import partial
from typing import Any

import xarray as xr

from moe_lab.pruning.published import STATEMENTS
from moe_lab_papers.claim import Claim, Measurement, Published, Read, Rule, near, share_from, up_to
from moe_lab_papers.pruning2024.sources import FIGURES, PICTURE

FIGURE_3 = Measurement.sized(
    name="pruning2024/figure3",
    function=f"{FIGURES}:figure3",
    sizes={"trials": (35, 200)},
    seconds=(10, 55),
    device=True,
    picture=PICTURE,
    sees="Figure 3 a to e: a few routers grow large, and those experts' routers and neurons point along their pattern.",
)
FIGURE_7 = Measurement.sized(
    name="pruning2024/figure7",
    function=f"{FIGURES}:figure7",
    sizes={"trials": (10, 20)},
    seconds=(3, 6),
    device=True,
    picture=PICTURE,
    sees="Figure 7: the same of the experts that vote -.",
)


_PIXELS = "the paper shows the components as shades, not as numbers"


def _of_group(data: xr.Dataset, group: str) -> xr.Dataset:
    """The experts of a group, in the trainings in which one of them is large, as one is in the paper's."""
    mine = data.isel(expert=data["group"].values == group)
    return mine.isel(trial=mine["large"].any("expert").values)


def _along(group: str) -> Read:
    def read(data: xr.Dataset) -> Any:
        mine = _of_group(data, group)
        return mine["router_share"].where(mine["large"]).min("expert")

    return read


def _neurons(group: str) -> Read:
    def read(data: xr.Dataset) -> Any:
        mine = _of_group(data, group)
        return mine["neurons_own"].where(mine["large"]).mean("expert")

    return read


def _with_norm(mine: xr.Dataset, variable: str, norms: xr.DataArray) -> xr.DataArray:
    """A variable of the expert of each trial whose norm is given: the largest's or the smallest's."""
    return mine[variable].where(mine["router_norm"] == norms).max("expert")


def _small(group: str) -> Read:
    def read(data: xr.Dataset) -> Any:
        mine = _of_group(data, group)
        components = mine.assign(router_own=abs(mine["router_own"]))
        norms = mine["router_norm"]
        large = _with_norm(components, "router_own", norms.max("expert"))
        return _with_norm(components, "router_own", norms.min("expert")) / large

    return read


def _small_neurons(group: str) -> Read:
    def read(data: xr.Dataset) -> Any:
        mine = _of_group(data, group)
        return _with_norm(mine, "neurons_own", mine["router_norm"].min("expert"))

    return read


def _shown(place: str, group: str, figure: str, measurement: Measurement) -> tuple[Claim, ...]:
    """What figures 3 b to e and 7 a to d show of two experts of a group."""
    pattern = "o_1" if group == "+" else "o_2"
    return (
        Claim(
            id=f"pruning2024/{place}/large-router",
            where=figure,
            statement=f"routers with a large norm have a large component along {pattern}",
            published=Published(relation="a large component along it, none elsewhere"),
            measurement=measurement,
            read=_along(group),
            rule=Rule(in_kind=share_from(0.9)),
            reason=_PIXELS,
            unit="of the squared norm",
        ),
        Claim(
            id=f"pruning2024/{place}/small-router",
            where=figure,
            statement=f"a small router has no significant component along {pattern}",
            published=Published(relation="no significant component"),
            measurement=measurement,
            read=_small(group),
            rule=Rule(in_kind=up_to(0.1)),
            reason=_PIXELS,
            unit="of the large one's",
        ),
        Claim(
            id=f"pruning2024/{place}/large-neurons",
            where=figure,
            statement="a constant fraction of the neurons of experts with a large router have a large component along "
            f"{pattern}",
            published=Published(relation="a constant fraction, read as a quarter"),
            measurement=measurement,
            read=_neurons(group),
            rule=Rule(in_kind=share_from(0.25)),
            reason=_PIXELS,
            unit="of the neurons",
        ),
        Claim(
            id=f"pruning2024/{place}/small-neurons",
            where=figure,
            statement=f"neurons of an expert with a small router have no large component along {pattern}",
            published=Published(relation="none"),
            measurement=measurement,
            read=_small_neurons(group),
            rule=Rule(in_kind=up_to(0.05), of="highest"),  # one neuron of 20, in no training more
            reason=_PIXELS,
            unit="of the neurons",
        ),
    )


_NAMED = STATEMENTS["synthetic/large-routers"].value
_figure_3 = partial(Claim, measurement=FIGURE_3)
CLAIMS: tuple[Claim, ...] = (
    _figure_3(
        id="pruning2024/figure3/large-routers",
        where="section 5.1, figure 3a",
        statement="a few of 20 routers end with significantly larger norms, above 1.5 log l",
        published=Published(value=_NAMED, relation="are named in the training that is shown"),
        read=lambda data: data["large"].sum("expert"),
        rule=Rule(agrees=near(_NAMED, (_NAMED * (1 - _NAMED / 20)) ** 0.5)),  # one training's: the binomial deviation
        unit="routers",
    ),
    _figure_3(
        id="pruning2024/figure3/both-groups",
        where="section 5.1, figure 3a",
        statement="both groups have routers with significantly larger norms",
        published=Published(value=1, relation="in the one training that is shown"),
        read=lambda data: ~data["violated"],
        rule=Rule(agrees=share_from(1.0), in_kind=share_from(0.5)),
        reason="in about a quarter of the trainings one class has no large router: nothing makes sure that a random "
        "start has an important expert for it, which the theory assumes; the paper shows a single training",
        unit="of the trainings",
    ),
    _figure_3(
        id="pruning2024/figure3/zero-error",
        where="section 5.1",
        statement="training from the tiny random initialization ends without errors",
        published=Published(value=1, relation="zero training error"),
        read=lambda data: data["test_accuracy"],
        rule=Rule(agrees=share_from(0.999), of="median"),
        unit="test accuracy",
    ),
    *_shown(place="figure3", group="+", figure="section 5.1, figure 3b to e", measurement=FIGURE_3),
    *_shown(place="figure7", group="-", figure="section B.1, figure 7", measurement=FIGURE_7),
)
