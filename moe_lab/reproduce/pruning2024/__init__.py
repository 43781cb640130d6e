"""The claims of pruning2024, "A Provably Effective Method for Pruning Experts in Fine-tuned Sparse MoE"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import xarray as xr

from moe_lab.pruning.published import STATEMENTS
from moe_lab.reproduce.claim import Claim, Erratum, Measurement, Published, Rule, at_least, at_most, near
from moe_lab.reproduce.pruning2024.costs import SIZED
from moe_lab.reproduce.pruning2024.criteria import PRUNED
from moe_lab.reproduce.pruning2024.errata import ERRATA as FOUND
from moe_lab.reproduce.pruning2024.theory import PROVED

_FIGURES = "moe_lab.pruning.figures"
_PICTURE = "moe_lab.pruning.plots:picture"

FIGURE_3 = Measurement(
    "pruning2024/figure3",
    f"{_FIGURES}:figure3",
    quick={"trials": 60},
    full={"trials": 200},
    seconds=(17, 55),
    device=True,
    picture=_PICTURE,
    sees="Figure 3 a to e: a few routers grow large, and those experts' routers and neurons point along their pattern.",
)
FIGURE_7 = Measurement(
    "pruning2024/figure7",
    f"{_FIGURES}:figure7",
    quick={"trials": 10},
    full={"trials": 20},
    seconds=(3, 6),
    device=True,
    picture=_PICTURE,
    sees="Figure 7: the same of the experts that vote -.",
)


def _own(data: xr.Dataset, component: str) -> xr.DataArray:
    """Each expert's component along the pattern of its group, in the trial that is shown."""
    return xr.where(data["group"] == "+", data[component].sel(pattern="o1"), data[component].sel(pattern="o2"))


def _large(data: xr.Dataset, group: str) -> xr.DataArray:
    """Which experts of a group are large, in the trial that is shown."""
    return data["large"].sel(trial=int(data["shown_trial"])) & (data["group"] == group)


def _along(group: str) -> Callable[[xr.Dataset], Any]:
    def read(data: xr.Dataset) -> Any:
        share = _own(data, "router_component") ** 2 / (data["router_component"] ** 2).sum("pattern")
        return share.where(_large(data, group), drop=True).min()

    return read


def _small(data: xr.Dataset) -> Any:
    components = _own(data, "router_component")
    large, small = (abs(components.sel(expert=int(data["shown"].sel(role=role)))) for role in ("large", "small"))
    return small / large


def _neurons(group: str) -> Callable[[xr.Dataset], Any]:
    def read(data: xr.Dataset) -> Any:
        share = (_own(data, "neuron_component") > 1).mean("neuron")
        return share.where(_large(data, group), drop=True).mean()

    return read


def _small_neurons(data: xr.Dataset) -> Any:
    return (_own(data, "neuron_component").sel(expert=int(data["shown"].sel(role="small"))) > 1).mean()


def _shown(place: str, group: str, figure: str, measurement: Measurement) -> tuple[Claim, ...]:
    """What figures 3 b to e and 7 a to d show of two experts of a group."""
    pattern = "o_1" if group == "+" else "o_2"
    return (
        Claim(
            f"pruning2024/{place}/large-router",
            figure,
            f"routers with a large norm have a large component along {pattern}",
            Published(relation="a large component along it, none elsewhere"),
            measurement,
            _along(group),
            Rule(at_least(0.9)),
            unit="of the squared norm",
        ),
        Claim(
            f"pruning2024/{place}/small-router",
            figure,
            f"a small router has no significant component along {pattern}",
            Published(relation="no significant component"),
            measurement,
            _small,
            Rule(at_most(0.1)),
            unit="of the large one's",
        ),
        Claim(
            f"pruning2024/{place}/large-neurons",
            figure,
            f"a constant fraction of the neurons of experts with a large router have a large component along {pattern}",
            Published(relation="a constant fraction, read as a quarter"),
            measurement,
            _neurons(group),
            Rule(at_least(0.25)),
            unit="of the neurons",
        ),
        Claim(
            f"pruning2024/{place}/small-neurons",
            figure,
            f"neurons of an expert with a small router have no large component along {pattern}",
            Published(relation="none"),
            measurement,
            _small_neurons,
            Rule(at_most(0.05)),
            unit="of the neurons",
        ),
    )


_ROUTERS = (
    Claim(
        "pruning2024/figure3/large-routers",
        "section 5.1, figure 3a",
        "a few of 20 routers end with significantly larger norms, above 1.5 log l",
        Published(STATEMENTS["synthetic/large-routers"].value, relation="are named in the training that is shown"),
        FIGURE_3,
        lambda data: data["large"].sum("expert"),
        Rule(near(STATEMENTS["synthetic/large-routers"].value, 1.7)),  # their number's deviation from run to run
        unit="routers",
    ),
    Claim(
        "pruning2024/figure3/both-groups",
        "section 5.1, figure 3a",
        "in both groups there are routers with significantly larger norms",
        Published(1, relation="in the one training that is shown"),
        FIGURE_3,
        lambda data: ~data["violated"],
        Rule(at_least(1), at_least(0.5)),
        "in about a quarter of the trainings one class has no large router: nothing makes sure that a random start has "
        "an important expert for it, which the theory assumes; the paper shows a single training",
        "of the trainings",
    ),
    Claim(
        "pruning2024/figure3/zero-error",
        "section 5.1",
        "training from the tiny random start ends without errors",
        Published(1, relation="zero training error"),
        FIGURE_3,
        lambda data: data["test_accuracy"],
        Rule(at_least(0.999), of="median"),
        unit="test accuracy",
    ),
    *_shown("figure3", "+", "section 5.1, figure 3b to e", FIGURE_3),
    *_shown("figure7", "-", "section B.1, figure 7", FIGURE_7),
)

CLAIMS: tuple[Claim, ...] = (*_ROUTERS, *PROVED, *PRUNED, *SIZED)
ERRATA: tuple[Erratum, ...] = FOUND
