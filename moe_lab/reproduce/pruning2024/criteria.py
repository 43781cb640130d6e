"""Figures 1, 4, 5 and 9 of pruning2024, which have vision models, in kind: on the analysed layer.

From a planted checkpoint, whose contrasts are chosen, and from specialists that were trained apart, where nothing is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import xarray as xr

from moe_lab.pruning.figures import CURVE
from moe_lab.pruning.published import STATEMENTS
from moe_lab.reproduce.claim import Claim, Measurement, Published, Rule, at_least

_LAYER = "one layer on synthetic tokens stands for a vision model"
_CHOSEN = f"{_LAYER}, and the planted checkpoint is made so that large, confident routers are useless ones"
_TIE = "both keep the accuracy at every rho: specialists on synthetic tokens do not tell them apart"
_UNIT = "of the experts"


def _measurement(start: str, routing: str, trials: tuple[int, int], seconds: tuple[float, float]) -> Measurement:
    where = "a planted checkpoint" if start == "planted" else "specialists that were trained apart"
    who = "experts" if routing == "expert-choice" else "tokens"
    same = {"start": start, "routing": routing, "rho": CURVE}
    return Measurement(
        f"pruning2024/criteria-{start}-{routing}",
        "moe_lab.pruning.figures:criteria",
        quick={**same, "trials": trials[0]},
        full={**same, "trials": trials[1]},
        seconds=seconds,
        device=True,
        picture="moe_lab.pruning.plots:picture",
        sees=f"Accuracy against the share of experts pruned, by criterion, from {where}; {who} choose.",
    )


EXPERTS_CHOOSE = _measurement("planted", "expert-choice", (20, 100), (3, 12))
TOKENS_CHOOSE = _measurement("planted", "token-choice", (10, 50), (10, 50))
PRETRAINED = _measurement("pretrained", "token-choice", (8, 40), (15, 75))


def tolerated(data: xr.Dataset, criterion: str, fine_tuned: bool) -> xr.DataArray:
    """(trial,) up to which rho of the grid a criterion keeps the accuracy within 1 % of the unpruned layer's."""
    accuracy = data["test_accuracy"].sel(criterion=criterion, fine_tuned=fine_tuned).sortby("rho")
    fine = accuracy >= data["unpruned_accuracy"] - 0.01 - 1e-9
    return (fine.cumprod("rho") * accuracy["rho"]).max("rho")


def _kept(fine_tuned: bool) -> Callable[[xr.Dataset], Any]:
    return lambda data: tolerated(data, "router-norm-change", fine_tuned)


def _ahead(*others: str) -> Callable[[xr.Dataset], Any]:
    """How much more the change of the norm tolerates than the best of the others, fine-tuned after pruning."""

    def read(data: xr.Dataset) -> Any:
        best = xr.concat([tolerated(data, other, True) for other in others], "other").max("other")
        return tolerated(data, "router-norm-change", True) - best

    return read


def _tolerance(name: str, measurement: Measurement, reason: str) -> tuple[Claim, ...]:
    """What figures 1, 4a and 4b show."""
    tuned, bare = (STATEMENTS[f"cifar-10/{which}/experts"].value for which in ("tuned", "bare"))
    return (
        Claim(
            f"pruning2024/figure1/experts-{name}",
            "section 1, figure 1",
            "fine-tuned again, a layer pruned by the change of the router's norm stays within 1 % of its accuracy",
            Published(tuned, relation="of the V-MoE's experts, CIFAR-10"),
            measurement,
            _kept(True),
            Rule(None, at_least(tuned)),
            reason,
            _UNIT,
        ),
        Claim(
            f"pruning2024/figure4b/experts-{name}",
            "section 5.2.1, figure 4b",
            "not fine-tuned again, a layer pruned by the change of the router's norm stays within 1 % of its accuracy",
            Published(bare, relation="of the V-MoE's experts but for one layer's, CIFAR-10"),
            measurement,
            _kept(False),
            Rule(None, at_least(bare)),
            reason,
            _UNIT,
        ),
        Claim(
            f"pruning2024/figure4a/random-{name}",
            "section 5.2.1, figure 4a",
            "pruning at random falls sharply after a small ratio, where the change of the router's norm does not",
            Published(relation="random falls earlier"),
            measurement,
            _ahead("random"),
            Rule(None, at_least(0.1)),
            reason,
            f"more {_UNIT}",
        ),
    )


_OTHERS = {
    "a": ("importance score", ("importance-score",)),
    "b": ("the norms of routers and of neurons", ("router-magnitude", "neuron-magnitude")),
    "c": ("the change of the neurons' norm", ("neuron-magnitude-change",)),
}


def _bound(name: str, measurement: Measurement) -> tuple[Claim, ...]:
    """What figure 5 shows: at least as good, up to half a step of the grid of rho."""
    return tuple(
        Claim(
            f"pruning2024/figure5{letter}/upper-bound-{name}",
            f"section 5.2.1, figure 5{letter}",
            f"pruning by the change of the router's norm is an upper bound to pruning by {words}",
            Published(relation="as many experts or more within 1 %"),
            measurement,
            _ahead(*names),
            Rule(None, at_least(-0.05)),
            _CHOSEN,
            f"more {_UNIT}",
        )
        for letter, (words, names) in _OTHERS.items()
    )


_BETTER = tuple(
    Claim(
        f"pruning2024/figure9{letter}/outperforms",
        f"section B.3, figure 9{letter}",
        f"pruning by the change of the router's norm outperforms pruning by {words}",
        Published(relation="all other methods, on CIFAR-100"),
        PRETRAINED,
        _ahead(*names),
        Rule(None, at_least(0.05)),
        _LAYER if letter == "a" else _TIE,
        f"more {_UNIT}",
    )
    for letter, (words, names) in _OTHERS.items()
)

PRUNED: tuple[Claim, ...] = (
    *_tolerance("expert-choice", EXPERTS_CHOOSE, _CHOSEN),
    *_tolerance("token-choice", TOKENS_CHOOSE, _CHOSEN),
    *_tolerance("pretrained", PRETRAINED, _LAYER),
    *_bound("expert-choice", EXPERTS_CHOOSE),
    *_bound("token-choice", TOKENS_CHOOSE),
    *_BETTER,
)
