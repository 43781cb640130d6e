"""The claims of chen2022's tables 4 to 6 (dispatch) and 9 (load balancing)."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
import xarray as xr

from moe_lab.specialization.measures import dispatch_entropy
from moe_lab.specialization.published import published
from moe_lab_papers.chen2022.mixtures import MIXED, MIXTURES, SETTINGS
from moe_lab_papers.chen2022.singles import accuracy
from moe_lab_papers.chen2022.sources import FIGURES, MEASURES, PICTURE
from moe_lab_papers.claim import (
    Claim,
    Measurement,
    Published,
    Rule,
    half_to_double,
    share_from,
    up_to,
)


def _dispatch(place: str, kind: str, sees: str, objective: str) -> Measurement:
    return Measurement.sized(
        name=f"chen2022/{place.replace(' ', '')}",
        function=f"{MEASURES}:dispatch_tables",
        sizes={"kind": (kind, kind), "objective": (objective, objective), "samples": (4000, 16000), "trials": (8, 10)},
        seconds=(5, 25),
        device=True,
        picture=PICTURE,
        sees=sees,
    )


_TABLE_4 = _dispatch(
    place="table 4", kind="nonlinear", sees="Every cubic expert gets one cluster or nothing.", objective="paper"
)
TABLE_6 = _dispatch(
    place="table 6", kind="linear", sees="Linear experts get a mixture of clusters.", objective="authors"
)


def entropy_of(place: str) -> float:
    """Returns the dispatch entropy, in nats, of a published table of counts."""
    counts = torch.as_tensor(published(place)["final_dispatch"].values, dtype=torch.float64)
    return float(dispatch_entropy(counts))


def _largest_excess(data: xr.Dataset) -> xr.DataArray:
    """The largest departure of a load from an eighth of the samples, in standard errors of such a load."""
    loads = data["trial_initial"].sum("cluster")
    samples, share = loads.sum("expert"), 1 / loads.sizes["expert"]
    return (abs(loads / samples - share).max("expert")) / (share * (1 - share) / samples) ** 0.5


_SERVING = 0.05
"""The share of the samples from which an expert is in use; of table 5, three have less than .001 and five over .08."""


def in_use(counts: xr.DataArray) -> xr.DataArray:
    """Returns how many experts get a twentieth of the samples or more, (...) of (..., cluster, expert)."""
    loads = counts.sum("cluster")
    return (loads >= _SERVING * loads.sum("expert")).sum("expert")


def own_share(counts: xr.DataArray) -> xr.DataArray:
    """Returns the share of samples of their expert's most frequent cluster, (...) of (..., cluster, expert)."""
    return counts.max("cluster").sum("expert") / counts.sum(("cluster", "expert"))


_SHOWN = "the tables show two trainings; in a few of ours two clusters share an expert, as in table 1's means"
_TABLE_5_COUNTS = published("table 5")["final_dispatch"]
_table_4 = partial(Claim, measurement=_TABLE_4)
_DISPATCH = (
    _table_4(
        id="chen2022/table4/initial-dispatch",
        where="tables 4 to 6, initial dispatch",
        statement="Before training each of eight experts gets an eighth of the samples; measured is the largest "
        "departure",
        published=Published(
            value=round(0.0049 / (7 / 64 / 16000) ** 0.5, 2), relation="in table 4, where it is .0049 of 16,000 samples"
        ),
        read=_largest_excess,
        rule=Rule(agrees=up_to(4)),
        unit="standard errors of a load",
    ),
    _table_4(
        id="chen2022/table4/one-cluster-or-nothing",
        where="tables 4 and 5, final dispatch",
        statement="Each nonlinear expert is given either no data or data that come from one cluster only: the entropy "
        "is 0",
        published=Published(value=entropy_of("table 4"), relation=f"{entropy_of('table 5'):.3f} in table 5"),
        read=lambda data: data["trial_entropy"],
        rule=Rule(agrees=up_to(0.1), of="median"),
        reason=_SHOWN,
        unit="nats",
    ),
    Claim(
        id="chen2022/table5/experts-in-use",
        where="table 5, final dispatch",
        statement="Five of eight nonlinear experts, or four, share the four clusters; the others get a few samples",
        published=Published(value=float(in_use(_TABLE_5_COUNTS)), relation="4 in table 4"),
        measurement=MIXTURES["nonlinear", "paper"],
        read=lambda data: in_use(data["dispatch"].sel(setting=1, model="moe-cubic")),
        rule=Rule(agrees=(4.0, 5.0), in_kind=(4.0, 7.0)),  # in kind: some expert is given no data
        reason="trainings scatter, and the paper shows two of them",
        unit="experts",
    ),
    _table_4(
        id="chen2022/table5/own-cluster",
        where="table 5, final dispatch",
        statement="Experts get samples of one cluster, strays apart, also where two of them share a cluster",
        published=Published(
            value=float(own_share(_TABLE_5_COUNTS)), relation="share of samples of the expert's own cluster"
        ),
        read=lambda data: own_share(data["trial_final"]),
        rule=Rule(agrees=share_from(0.99), of="median"),
        reason=_SHOWN,
    ),
    _table_4(
        id="chen2022/table5/accuracy",
        where="tables 4 and 5, captions",
        statement="The accuracy under such a dispatch is 100 % or very close to it",
        published=Published(value=0.9995, relation="1 in table 4"),
        read=lambda data: data["trial_accuracy"],
        rule=Rule(agrees=share_from(0.995), of="median"),
        reason=_SHOWN,
    ),
    Claim(
        id="chen2022/table6/clusters-mixed",
        where="table 6, final dispatch",
        statement="A linear mixture's dispatch does not separate the clusters",
        published=Published(value=entropy_of("table 6"), relation="clusters are not well separated"),
        measurement=TABLE_6,
        read=lambda data: data["trial_entropy"],
        rule=Rule(agrees=(entropy_of("table 6") - 0.25, MIXED[1])),  # to log 4, the largest there is
        unit="nats",
    ),
)


TABLE_9 = Measurement(
    name="chen2022/table9",
    function=f"{FIGURES}:load_balancing",
    quick={"settings": SETTINGS, "samples": 4000, "trials": 4, "objective": "authors", "one_data_set": False},
    full={"settings": SETTINGS, "samples": 16000, "trials": 5, "objective": "authors", "one_data_set": False},
    seconds=(24, 120),
    paper={"trials": 10},
    split=("settings", "setting"),
    device=True,
    picture=PICTURE,
    sees="Linear experts with the load-balancing loss keep a high entropy and stay below cubic ones without it.",
)
_LEAD = float(np.mean([5.65, 8.89, 4.87, 6.42])) / 100
_BALANCING = (
    Claim(
        id="chen2022/table9/nonlinear-ahead",
        where="table 9, all settings",
        statement="Linear experts with the load-balancing loss stay below nonlinear ones without it",
        published=Published(value=_LEAD, relation="the mean lead of nonlinear experts"),
        measurement=TABLE_9,
        read=lambda data: accuracy(data, "moe-cubic") - accuracy(data, "moe-linear"),
        rule=Rule(in_kind=half_to_double(_LEAD)),
        reason="the weight of the loss is not published for these data; from 16,000 samples the lead is smaller than "
        "from 4,000, as linear experts gain more",
    ),
    Claim(
        id="chen2022/table9/no-cure",
        where="appendix A.2, load balancing loss",
        statement="The load-balancing loss does not make linear experts divide the clusters: their entropy stays high",
        published=Published(relation="load balancing is not the key to the success of the mixture"),
        measurement=TABLE_9,
        read=lambda data: data["dispatch_entropy"].sel(model="moe-linear").mean("setting"),
        rule=Rule(in_kind=MIXED),
        reason="the paper has no entropies for this loss",
    ),
)

CLAIMS: tuple[Claim, ...] = (*_DISPATCH, *_BALANCING)
