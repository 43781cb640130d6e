"""The claims of chen2022's tables 4 to 6 (who gets what), 7 and 8 (activations) and 9 (load balancing)."""

from __future__ import annotations

import numpy as np
import torch
import xarray as xr

from moe_lab.reproduce.chen2022.mixtures import BOUND, FIGURES, HIGH_ENTROPY, PICTURE, SETTINGS, accuracy
from moe_lab.reproduce.claim import Claim, Measurement, Published, Rule, at_least, at_most, near
from moe_lab.specialization.measures import dispatch_entropy
from moe_lab.specialization.published import published


def _dispatch(place: str, kind: str, sees: str, objective: str) -> Measurement:
    call = {"kind": kind, "setting": 1, "samples": 16000, "objective": objective}
    name = f"chen2022/{place.replace(' ', '')}"
    return Measurement(
        name, f"{FIGURES}:dispatch_table", call, call, (2.5, 2.5), device=True, picture=PICTURE, sees=sees
    )


_TABLE_4 = _dispatch("table 4", "nonlinear", "Every cubic expert gets one cluster or nothing.", "paper")
_TABLE_6 = _dispatch("table 6", "linear", "Linear experts get a mixture of clusters.", "authors")


def _entropy_of(place: str) -> float:
    counts = torch.as_tensor(published(place)["final_dispatch"].values, dtype=torch.float64)
    return float(dispatch_entropy(counts))


def _largest_excess(data: xr.Dataset) -> np.ndarray:
    loads = data["initial_dispatch"].sum("cluster")
    return np.abs(loads / loads.sum() - 1 / loads.sizes["expert"]).max().values


_DISPATCH = (
    Claim(
        "chen2022/table4/initial-dispatch",
        "tables 4 to 6, initial dispatch",
        "Before training each of eight experts gets an eighth of the samples; measured is the largest departure",
        Published(0.0049, relation="the largest departure in table 4"),
        _TABLE_4,
        _largest_excess,
        Rule(at_most(0.0125)),
    ),
    Claim(
        "chen2022/table4/one-cluster-or-nothing",
        "tables 4 and 5, final dispatch",
        "Each nonlinear expert is given either no data or data that come from one cluster only: the entropy is 0",
        Published(_entropy_of("table 4"), relation=f"{_entropy_of('table 5'):.3f} in table 5"),
        _TABLE_4,
        lambda data: data["dispatch_entropy"],
        Rule(at_most(0.1)),
        unit="nats",
    ),
    Claim(
        "chen2022/table5/accuracy",
        "tables 4 and 5, captions",
        "The accuracy under such a dispatch is 100 % or very close to it",
        Published(0.9995, relation="1 in table 4"),
        _TABLE_4,
        lambda data: data["test_accuracy"],
        Rule(at_least(0.995)),
    ),
    Claim(
        "chen2022/table6/clusters-mixed",
        "table 6, final dispatch",
        "A linear mixture's dispatch does not separate the clusters",
        Published(_entropy_of("table 6"), relation="clusters are not well separated"),
        _TABLE_6,
        lambda data: data["dispatch_entropy"],
        Rule(near(_entropy_of("table 6"), 0.25)),
        unit="nats",
    ),
)


def _activations(table: str, settings: tuple[int, ...], seconds: tuple[float, float]) -> Measurement:
    return Measurement(
        f"chen2022/{table}",
        f"{FIGURES}:single_experts",
        quick={"settings": settings, "samples": 400, "trials": 1},
        full={"settings": settings, "samples": 16000, "trials": 1},
        seconds=seconds,
        split=("settings", "setting"),
        device=True,
        picture=PICTURE,
        sees="With no activation does a single expert reach 87.5 %.",
    )


_TABLE_7, _TABLE_8 = _activations("table7", (3,), (5, 165)), _activations("table8", (1, 2), (10, 330))


def _all_fail(setting: int) -> Claim:
    table = 7 if setting == 3 else 8
    best = float(published(f"table {table}")["test_accuracy"].sel(setting=setting).max())
    relation = "at most 87.5 %, theorem 4.1" if setting == 3 else "all fail, though alpha and gamma differ"
    return Claim(
        f"chen2022/table{table}/setting{setting}-all-activations-fail",
        f"table {table}, setting {setting}",
        f"A single expert fails with each of six activations; the best published has {100 * best:.2f} %",
        Published(best, relation=relation),
        _TABLE_7 if setting == 3 else _TABLE_8,
        lambda data: data["test_accuracy"].sel(setting=setting).max("activation"),
        Rule(at_most(BOUND), of="highest"),
    )


_TABLE_9 = Measurement(
    "chen2022/table9",
    f"{FIGURES}:load_balancing",
    quick={"settings": SETTINGS, "samples": 4000, "trials": 2, "objective": "authors"},
    full={"settings": SETTINGS, "samples": 16000, "trials": 5, "objective": "authors"},
    seconds=(14, 120),
    split=("settings", "setting"),
    device=True,
    picture=PICTURE,
    sees="Linear experts with the load-balancing loss keep a high entropy and stay below cubic ones without it.",
)
_BALANCING = (
    Claim(
        "chen2022/table9/nonlinear-ahead",
        "table 9, all settings",
        "Linear experts with the load-balancing loss stay below nonlinear ones without it",
        Published(float(np.mean([5.65, 8.89, 4.87, 6.42])) / 100, relation="the mean lead of nonlinear experts"),
        _TABLE_9,
        lambda data: accuracy(data, "moe-cubic") - accuracy(data, "moe-linear"),
        Rule(None, in_kind=at_least(0.0), of="median"),
        reason="the weight of the loss is not published for these data",
    ),
    Claim(
        "chen2022/table9/no-cure",
        "appendix A.2, load balancing loss",
        "The load-balancing loss does not make linear experts divide the clusters: their entropy stays high",
        Published(relation="load balancing is not the key to the success of the mixture"),
        _TABLE_9,
        lambda data: data["dispatch_entropy"].sel(model="moe-linear").mean("setting"),
        Rule(None, in_kind=at_least(HIGH_ENTROPY)),
        reason="the paper has no entropies for this loss",
    ),
)

CLAIMS: tuple[Claim, ...] = (*_DISPATCH, *(_all_fail(setting) for setting in (3, 1, 2)), *_BALANCING)
