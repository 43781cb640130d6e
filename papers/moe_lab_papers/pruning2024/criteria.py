"""Figures 1, 4 and 9 of pruning2024, which have vision models, on the analysed layer: it is not comparable with them.

The layer begins as specialists that were trained apart. A planted checkpoint, whose contrasts are chosen, would show
whatever it was made for.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import xarray as xr

from moe_lab.pruning.figures import CRITERIA, CURVE
from moe_lab.pruning.published import STATEMENTS
from moe_lab_papers.claim import ROUNDING, Claim, Measurement, Published, Read, Rule, share_from
from moe_lab_papers.pruning2024.sources import FIGURES, PICTURE

_LAYER = "one layer on synthetic tokens stands for a vision model"
_TIE = f"{_LAYER}; both keep the accuracy at every rho, so that it does not separate them"
_UNIT = "of the experts"


PRETRAINED = Measurement.sized(
    name="pruning2024/criteria-pretrained-token-choice",
    function=f"{FIGURES}:criteria",
    sizes={
        "start": ("pretrained", "pretrained"),
        "routing": ("token-choice", "token-choice"),
        "rho": (CURVE, CURVE),
        "criteria": ((*CRITERIA, "token-count"), (*CRITERIA, "token-count")),
        "trials": (4, 40),
    },
    seconds=(9, 86),
    device=True,
    picture=PICTURE,
    sees="Accuracy against the share of experts pruned, by criterion, from specialists that were trained apart.",
)


def tolerated(data: xr.Dataset, criterion: str, fine_tuned: bool) -> xr.DataArray:
    """Returns up to which rho a criterion keeps the accuracy within 1 % of the unpruned layer's, (trial,)."""
    accuracy = data["test_accuracy"].sel(criterion=criterion, fine_tuned=fine_tuned).sortby("rho")
    fine = accuracy >= data["unpruned_accuracy"] - 0.01 - 1e-9
    return (fine.cumprod("rho") * accuracy["rho"]).max("rho")


def _kept(fine_tuned: bool) -> Read:
    return lambda data: tolerated(data, "router-norm-change", fine_tuned)


def _ahead(*others: str) -> Read:
    """How much more the change of the norm tolerates than the best of the others, fine-tuned after pruning."""

    def read(data: xr.Dataset) -> Any:
        best = xr.concat([tolerated(data, other, True) for other in others], "other").max("other")
        return tolerated(data, "router-norm-change", True) - best

    return read


_claim = partial(Claim, measurement=PRETRAINED)
_TUNED, _BARE = (STATEMENTS[f"cifar-10/{which}/experts"].value for which in ("tuned", "bare"))
_TOLERANCE = (
    _claim(
        id="pruning2024/figure1/experts-pretrained",
        where="section 1, figure 1",
        statement="fine-tuned again, a layer pruned by the change of the router's norm stays within 1 % of its "
        "accuracy",
        published=Published(value=_TUNED, bound="at least", relation="of the V-MoE's experts, CIFAR-10"),
        read=_kept(True),
        rule=Rule(in_kind=share_from(_TUNED)),
        not_comparable=_LAYER,
        unit=_UNIT,
    ),
    _claim(
        id="pruning2024/figure4b/experts-pretrained",
        where="section 5.2.1, figure 4b",
        statement="not fine-tuned again, a layer pruned by the change of the router's norm stays within 1 % of its "
        "accuracy",
        published=Published(
            value=_BARE, bound="at least", relation="of the V-MoE's experts but for one layer's, CIFAR-10"
        ),
        read=_kept(False),
        rule=Rule(in_kind=share_from(_BARE)),
        not_comparable=_LAYER,
        unit=_UNIT,
    ),
    _claim(
        id="pruning2024/figure4a/random-pretrained",
        where="section 5.2.1, figure 4a",
        statement="pruning at random falls sharply after a small ratio, where the change of the router's norm does not",
        published=Published(relation="random falls earlier"),
        read=_ahead("random"),
        rule=Rule(in_kind=share_from(0.1)),
        not_comparable=_LAYER,
        unit=f"more {_UNIT}",
    ),
)


_OTHERS = {
    "a": ("importance score", ("importance-score",)),
    "b": ("the norms of routers and of neurons", ("router-magnitude", "neuron-magnitude")),
    "c": ("the change of the neurons' norm", ("neuron-magnitude-change",)),
}


_BETTER = tuple(
    _claim(
        id=f"pruning2024/figure9{letter}/outperforms",
        where=f"section B.3, figure 9{letter}",
        statement=f"pruning by the change of the router's norm outperforms pruning by {words}",
        published=Published(relation="all other methods, on CIFAR-100"),
        read=_ahead(*names),
        rule=Rule(in_kind=share_from(0.05)),
        not_comparable=_LAYER if letter == "a" else _TIE,
        unit=f"more {_UNIT}",
    )
    for letter, (words, names) in _OTHERS.items()
)
_COUNTS = _claim(
    id="pruning2024/section5.2.1/token-count-pretrained",
    where="section 5.2.1, (I)",
    statement="pruning by the change of the router's norm is an upper bound to pruning by the number of tokens that "
    "experts receive",
    published=Published(relation="to the importance score, which is made from such a number (figure 5a)"),
    read=_ahead("token-count"),
    rule=Rule(in_kind=share_from(-ROUNDING)),
    not_comparable=f"{_LAYER}; the paper names the number of tokens as the metric of earlier work, and plots the "
    "importance score alone",
    unit=f"more {_UNIT}",
)
CLAIMS: tuple[Claim, ...] = (
    *_TOLERANCE,
    *_BETTER,
    _COUNTS,
)
