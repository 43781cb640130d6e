"""Figures 1, 4 and 9 of pruning2024, which have vision models, on the analysed layer: it is not comparable with them.

The layer begins as specialists that were trained apart. A planted checkpoint, whose contrasts are chosen, would show
whatever it was made for.
"""

from __future__ import annotations

from typing import Any

import xarray as xr

from moe_lab.pruning import figures
from moe_lab.pruning.published import STATEMENTS
from moe_lab_papers.paper import Paper, budgets, says
from moe_lab_papers.ranges import ROUNDING, share_from
from moe_lab_papers.readers import reader

paper = Paper("pruning2024", picture="moe_lab.pruning.plots:picture")

_LAYER = "one layer on synthetic tokens stands for a vision model"
pretrained = paper.measure(
    "criteria-pretrained-token-choice",
    figures.criteria,
    seconds=(9, 86),
    sees="Accuracy against the share of experts pruned, by criterion, from specialists that were trained apart.",
    unit="more of the experts",
    not_comparable=_LAYER,
    start="pretrained",
    routing="token-choice",
    rho=figures.CURVE,
    criteria=(*figures.CRITERIA, "token-count"),
    trials=budgets(4, 40),
)


def tolerated(data: xr.Dataset, criterion: str, fine_tuned: bool) -> xr.DataArray:
    """Returns the largest rho at which a criterion keeps the accuracy within 1 % of the unpruned layer's, (trial,)."""
    accuracy = data["test_accuracy"].sel(criterion=criterion, fine_tuned=fine_tuned).sortby("rho")
    fine = accuracy >= data["unpruned_accuracy"] - 0.01 - 1e-9
    return (fine.cumprod("rho") * accuracy["rho"]).max("rho")


@reader
def kept(data: xr.Dataset, *, fine_tuned: bool) -> xr.DataArray:
    """Returns the largest rho that the change of the norm tolerates."""
    return tolerated(data, "router-norm-change", fine_tuned)


@reader
def ahead(data: xr.Dataset, *others: str) -> Any:
    """Returns the rho that the change of the norm tolerates less the best of others, fine-tuned after pruning."""
    best = xr.concat([tolerated(data, other, True) for other in others], "other").max("other")
    return tolerated(data, "router-norm-change", True) - best


_TUNED, _BARE = (STATEMENTS[f"cifar-10/{which}/experts"].value for which in ("tuned", "bare"))
pretrained.claim(
    "figure1/experts-pretrained",
    "fine-tuned again, a layer pruned by the change of the router's norm stays within 1 % of its accuracy",
    kept(fine_tuned=True),
    says(_TUNED, "of the V-MoE's experts, CIFAR-10", bound="at least").in_kind(share_from),
    where="section 1, figure 1",
    unit="of the experts",
)
pretrained.claim(
    "figure4b/experts-pretrained",
    "not fine-tuned again, a layer pruned by the change of the router's norm stays within 1 % of its accuracy",
    kept(fine_tuned=False),
    says(_BARE, "of the V-MoE's experts but for one layer's, CIFAR-10", bound="at least").in_kind(share_from),
    where="section 5.2.1, figure 4b",
    unit="of the experts",
)
pretrained.claim(
    "figure4a/random-pretrained",
    "pruning at random falls sharply after a small ratio, where the change of the router's norm does not",
    ahead("random"),
    says("random falls earlier").in_kind(share_from(0.1)),
    where="section 5.2.1, figure 4a",
)
_TIE = f"{_LAYER}; both keep the accuracy at every rho, so that it does not separate them"
for letter, words, others, shown in (
    ("a", "importance score", ("importance-score",), _LAYER),
    ("b", "the norms of routers and of neurons", ("router-magnitude", "neuron-magnitude"), _TIE),
    ("c", "the change of the neurons' norm", ("neuron-magnitude-change",), _TIE),
):
    pretrained.claim(
        f"figure9{letter}/outperforms",
        f"pruning by the change of the router's norm outperforms pruning by {words}",
        ahead(*others),
        says("all other methods, on CIFAR-100").in_kind(share_from(0.05)),
        not_comparable=shown,
        where=f"section B.3, figure 9{letter}",
    )
pretrained.claim(
    "section5.2.1/token-count-pretrained",
    "pruning by the change of the router's norm is an upper bound to pruning by the number of tokens that experts "
    "receive",
    ahead("token-count"),
    says("to the importance score, which is made from such a number (figure 5a)").in_kind(share_from(-ROUNDING)),
    not_comparable=f"{_LAYER}; the paper names the number of tokens as the metric of earlier work, and plots the "
    "importance score alone",
    where="section 5.2.1, (I)",
)
