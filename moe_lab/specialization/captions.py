"""Describes each table and figure in a sentence or two with numbers, for screen readers and for print."""

from __future__ import annotations

import json

import xarray as xr

from moe_lab.core.words import counted, percent, series, span
from moe_lab.specialization.plot_helpers import name_of

_PRODUCTS = ("expert_feature", "expert_center", "router_feature", "router_center")


def compared(data: xr.Dataset) -> str:
    """Median accuracies and entropies of each model over all the settings shown."""
    parts = []
    for name in map(str, data["model"].values):
        accuracy = span(100 * data["test_accuracy"].sel(model=name).median("trial"), "{:.1f}", " %")
        entropy = data["dispatch_entropy"].sel(model=name).median("trial")
        known = f", entropy {span(entropy, '{:.2f}')}" if entropy.notnull().any() else ""
        parts.append(f"{name_of(name)} {accuracy}{known}")
    return f"Medians of {counted(data.sizes['trial'])}: {'; '.join(parts)}."


def dispatch_table(data: xr.Dataset) -> str:
    final = data["final_dispatch"].transpose("cluster", "expert").values
    load = final.sum(0) / final.sum()
    used = load >= 0.01
    alone = ((final > 0).sum(0) == 1) & used
    return (
        f"After training {used.sum()} of {len(load)} experts get samples, {alone.sum()} of them from one cluster only; "
        f"entropy {_number(data['dispatch_entropy'])}, test accuracy {percent(data['test_accuracy'])}."
    )


def single_experts(data: xr.Dataset) -> str:
    medians = data["test_accuracy"].median("trial")
    best = float(data["test_accuracy"].max())
    parts = [
        f"setting {setting} {span(100 * medians.sel(setting=setting), '{:.1f}', ' %')}"
        for setting in data["setting"].values
    ]
    bounded = data["optimum"].notnull().any()
    bound = f"; no single expert can pass {percent(data['optimum'].max())} where α and γ are alike" if bounded else ""
    trials = counted(data.sizes["trial"])
    return f"Medians of {trials}: {series(parts)}; the best training reached {100 * best:.1f} %{bound}."


def entropy_through_time(data: xr.Dataset) -> str:
    last = data["dispatch_entropy"].isel(step=-1).median("trial")
    parts = [
        f"setting {setting}: "
        + series(
            f"{name_of(str(name))} {_number(last.sel(setting=setting, model=name))}" for name in data["model"].values
        )
        for setting in data["setting"].values
    ]
    return f"Median entropy at step {int(data['step'][-1])} ({counted(data.sizes['trial'])}). {'; '.join(parts)}."


def inner_products(data: xr.Dataset) -> str:
    last: dict[str, xr.DataArray] = {name: abs(data[name].isel(step=-1, trial=0)) for name in _PRODUCTS}
    whole = last["expert_feature"]
    sharp = float((whole.max("cluster") / whole.sum("cluster")).median())
    most = [f"{float(value.max()):.2g}" for value in last.values()]
    return (
        f"Of what an expert has learned of label signals, {100 * sharp:.0f} % lies on one of them (median). Largest: "
        f"experts {most[0]} with v, {most[1]} with c; routers {most[2]} with v, {most[3]} with c."
    )


def tsne(data: xr.Dataset) -> str:
    parts = [
        f"{name_of(str(name))} {percent(data['test_accuracy'].sel(model=name))} right, "
        f"entropy {_number(data['dispatch_entropy'].sel(model=name))}"
        for name in data["model"].values
    ]
    trial = json.loads(data.attrs["config"])[0]["first_trial"]
    return f"{data.sizes['sample']} unseen samples, trial {trial}: {'; '.join(parts)}."


def _number(value: xr.DataArray) -> str:
    return f"{abs(float(value)):.2f}"  # an entropy of 0 may come as -0.0
