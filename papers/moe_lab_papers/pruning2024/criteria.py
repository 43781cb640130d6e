"""Figures 1, 4, 5 and 9 of pruning2024, which have vision models, in kind: on the analysed layer.

From a planted checkpoint, whose contrasts are chosen, and from specialists that were trained apart, where nothing is.
"""

from __future__ import annotations

from typing import Any

import xarray as xr

from moe_lab.pruning.figures import CRITERIA, CURVE
from moe_lab.pruning.published import STATEMENTS
from moe_lab_papers.claim import ROUNDING, Claim, Measurement, Published, Read, Rule, share_from
from moe_lab_papers.pruning2024.sources import FIGURES, PICTURE

_LAYER = "one layer on synthetic tokens stands for a vision model"
_CHOSEN = f"{_LAYER}, and the planted checkpoint is made so that large, confident routers are useless ones"
_TIE = "both keep the accuracy at every rho: specialists on synthetic tokens do not separate them"
_UNIT = "of the experts"


def _measurement(start: str, routing: str, trials: tuple[int, int], seconds: tuple[float, float]) -> Measurement:
    where = "a planted checkpoint" if start == "planted" else "specialists that were trained apart"
    who = "experts" if routing == "expert-choice" else "tokens"
    same: dict[str, Any] = {"start": start, "routing": routing, "rho": CURVE}
    if routing == "token-choice":
        same["criteria"] = (*CRITERIA, "token-count")
    return Measurement(
        name=f"pruning2024/criteria-{start}-{routing}",
        function=f"{FIGURES}:criteria",
        quick={**same, "trials": trials[0]},
        full={**same, "trials": trials[1]},
        seconds=seconds,
        device=True,
        picture=PICTURE,
        sees=f"Accuracy against the share of experts pruned, by criterion, from {where}; {who} choose.",
    )


EXPERTS_CHOOSE = _measurement(start="planted", routing="expert-choice", trials=(20, 100), seconds=(3, 12))
TOKENS_CHOOSE = _measurement(start="planted", routing="token-choice", trials=(10, 50), seconds=(11, 57))
PRETRAINED = _measurement(start="pretrained", routing="token-choice", trials=(8, 40), seconds=(17, 86))


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


def _tolerance(name: str, measurement: Measurement, reason: str) -> tuple[Claim, ...]:
    """What figures 1, 4a and 4b show."""
    tuned, bare = (STATEMENTS[f"cifar-10/{which}/experts"].value for which in ("tuned", "bare"))
    return (
        Claim(
            id=f"pruning2024/figure1/experts-{name}",
            where="section 1, figure 1",
            statement="fine-tuned again, a layer pruned by the change of the router's norm stays within 1 % of its "
            "accuracy",
            published=Published(value=tuned, bound="at least", relation="of the V-MoE's experts, CIFAR-10"),
            measurement=measurement,
            read=_kept(True),
            rule=Rule(in_kind=share_from(tuned)),
            reason=reason,
            unit=_UNIT,
        ),
        Claim(
            id=f"pruning2024/figure4b/experts-{name}",
            where="section 5.2.1, figure 4b",
            statement="not fine-tuned again, a layer pruned by the change of the router's norm stays within 1 % of its "
            "accuracy",
            published=Published(
                value=bare, bound="at least", relation="of the V-MoE's experts but for one layer's, CIFAR-10"
            ),
            measurement=measurement,
            read=_kept(False),
            rule=Rule(in_kind=share_from(bare)),
            reason=reason,
            unit=_UNIT,
        ),
        Claim(
            id=f"pruning2024/figure4a/random-{name}",
            where="section 5.2.1, figure 4a",
            statement="pruning at random falls sharply after a small ratio, where the change of the router's norm does "
            "not",
            published=Published(relation="random falls earlier"),
            measurement=measurement,
            read=_ahead("random"),
            rule=Rule(in_kind=share_from(0.1)),
            reason=reason,
            unit=f"more {_UNIT}",
        ),
    )


_OTHERS = {
    "a": ("importance score", ("importance-score",)),
    "b": ("the norms of routers and of neurons", ("router-magnitude", "neuron-magnitude")),
    "c": ("the change of the neurons' norm", ("neuron-magnitude-change",)),
}


def _bound(name: str, measurement: Measurement) -> tuple[Claim, ...]:
    """What figure 5 shows: at least as good on the mean of the trials."""
    return tuple(
        Claim(
            id=f"pruning2024/figure5{letter}/upper-bound-{name}",
            where=f"section 5.2.1, figure 5{letter}",
            statement=f"pruning by the change of the router's norm is an upper bound to pruning by {words}",
            published=Published(relation="as many experts or more within 1 %"),
            measurement=measurement,
            read=_ahead(*names),
            rule=Rule(in_kind=share_from(-ROUNDING)),
            reason=_CHOSEN,
            unit=f"more {_UNIT}",
        )
        for letter, (words, names) in _OTHERS.items()
    )


_BETTER = tuple(
    Claim(
        id=f"pruning2024/figure9{letter}/outperforms",
        where=f"section B.3, figure 9{letter}",
        statement=f"pruning by the change of the router's norm outperforms pruning by {words}",
        published=Published(relation="all other methods, on CIFAR-100"),
        measurement=PRETRAINED,
        read=_ahead(*names),
        rule=Rule(in_kind=share_from(0.05)),
        reason=_LAYER if letter == "a" else _TIE,
        unit=f"more {_UNIT}",
    )
    for letter, (words, names) in _OTHERS.items()
)


def _counts(name: str, measurement: Measurement, reason: str) -> Claim:
    """That counting tokens is no better; where experts choose, all receive equally many."""
    return Claim(
        id=f"pruning2024/section5.2.1/token-count-{name}",
        where="section 5.2.1, (I)",
        statement="pruning by the change of the router's norm is an upper bound to pruning by the number of tokens "
        "that experts receive",
        published=Published(relation="to the importance score, which is made from such a number (figure 5a)"),
        measurement=measurement,
        read=_ahead("token-count"),
        rule=Rule(in_kind=share_from(-ROUNDING)),
        reason=f"{reason}; the paper names the number of tokens as the metric of earlier work, and plots the "
        "importance score alone",
        unit=f"more {_UNIT}",
    )


CLAIMS: tuple[Claim, ...] = (
    *_tolerance(name="expert-choice", measurement=EXPERTS_CHOOSE, reason=_CHOSEN),
    *_tolerance(name="token-choice", measurement=TOKENS_CHOOSE, reason=_CHOSEN),
    *_tolerance(name="pretrained", measurement=PRETRAINED, reason=_LAYER),
    *_bound("expert-choice", EXPERTS_CHOOSE),
    *_bound("token-choice", TOKENS_CHOOSE),
    *_BETTER,
    _counts("token-choice", TOKENS_CHOOSE, _CHOSEN),
    _counts("pretrained", PRETRAINED, _LAYER),
)
