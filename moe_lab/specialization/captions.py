"""One sentence or two for each picture of this room: what it shows, in numbers, for screen readers and for print."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

import numpy as np
import xarray as xr

from moe_lab.origins import counted, figure_of
from moe_lab.specialization.plot_helpers import name_of

KINDS = {
    "table 1": "table 3",
    "table 3": "table 3",
    "table 4": "table 4",
    "table 6": "table 4",
    "table 7": "table 7",
    "table 8": "table 7",
    "tables 7 and 8": "table 7",
    "table 9": "table 9",
    "figure 1": "figure 1",
    "figure 3": "figure 3",
    "figure 4": "figure 4",
    "figure 5": "figure 4",
    "figures 4 and 5, another activation": "figure 4",
}
"""The table or figure that a Dataset holds -> the one that it is drawn like."""
_PRODUCTS = ("expert_feature", "expert_center", "router_feature", "router_center")


def caption(data: xr.Dataset) -> str:
    """What the picture of a Dataset of `figures` shows.

    Raises:
      ValueError: the Dataset is not one of theirs.
    """
    return _SENTENCES[kind_of(data)](data)


def kind_of(data: xr.Dataset) -> str:
    """The table or figure that a Dataset is drawn like, from its attrs.

    Raises:
      ValueError: it does not say, or is not from this room.
    """
    return KINDS[figure_of(data, "chen2022", KINDS)]


def _compared(data: xr.Dataset) -> str:
    """Median accuracies and entropies of each model over all the settings shown."""
    parts = []
    for name in map(str, data["model"].values):
        accuracy = _range(100 * data["test_accuracy"].sel(model=name).median("trial"), "{:.1f}", " %")
        entropy = data["dispatch_entropy"].sel(model=name).median("trial")
        known = f", entropy {_range(entropy, '{:.2f}')}" if entropy.notnull().any() else ""
        parts.append(f"{name_of(name)} {accuracy}{known}")
    return f"Medians of {counted(data.sizes['trial'])}: {'; '.join(parts)}."


def _dispatch(data: xr.Dataset) -> str:
    final = data["final_dispatch"].transpose("cluster", "expert").values
    load = final.sum(0) / final.sum()
    used = load >= 0.01
    alone = ((final > 0).sum(0) == 1) & used
    return (
        f"After training {used.sum()} of {len(load)} experts get samples, {alone.sum()} of them from one cluster only; "
        f"entropy {_number(data['dispatch_entropy'])}, test accuracy {_percent(data['test_accuracy'])}."
    )


def _single(data: xr.Dataset) -> str:
    medians = data["test_accuracy"].median("trial")
    best = float(data["test_accuracy"].max())
    parts = [
        f"setting {setting} {_range(100 * medians.sel(setting=setting), '{:.1f}', ' %')}"
        for setting in data["setting"].values
    ]
    bounded = data["optimum"].notnull().any()
    bound = f"; no single expert can pass {_percent(data['optimum'].max())} where α and γ are alike" if bounded else ""
    trials = counted(data.sizes["trial"])
    return f"Medians of {trials}: {_listed(parts)}; the best training reached {100 * best:.1f} %{bound}."


def _entropy(data: xr.Dataset) -> str:
    last = data["dispatch_entropy"].isel(step=-1).median("trial")
    parts = [
        f"setting {setting}: "
        + _listed(
            f"{name_of(str(name))} {_number(last.sel(setting=setting, model=name))}" for name in data["model"].values
        )
        for setting in data["setting"].values
    ]
    return f"Median entropy at step {int(data['step'][-1])} ({counted(data.sizes['trial'])}). {'; '.join(parts)}."


def _products(data: xr.Dataset) -> str:
    last: dict[str, xr.DataArray] = {name: abs(data[name].isel(step=-1, trial=0)) for name in _PRODUCTS}
    whole = last["expert_feature"]
    sharp = float((whole.max("cluster") / whole.sum("cluster")).median())
    most = [f"{float(value.max()):.2g}" for value in last.values()]
    return (
        f"Of what an expert has learned of label signals, {100 * sharp:.0f} % lies on one of them (median). Largest: "
        f"experts {most[0]} with v, {most[1]} with c; routers {most[2]} with v, {most[3]} with c."
    )


def _tsne(data: xr.Dataset) -> str:
    parts = [
        f"{name_of(str(name))} {_percent(data['test_accuracy'].sel(model=name))} right, "
        f"entropy {_number(data['dispatch_entropy'].sel(model=name))}"
        for name in data["model"].values
    ]
    trial = json.loads(data.attrs["config"])[0]["first_trial"]
    return f"{data.sizes['sample']} unseen samples, trial {trial}: {'; '.join(parts)}."


_SENTENCES: dict[str, Callable[[xr.Dataset], str]] = {
    "table 3": _compared,
    "table 9": _compared,
    "table 4": _dispatch,
    "table 7": _single,
    "figure 3": _entropy,
    "figure 4": _products,
    "figure 1": _tsne,
}


def _number(value: xr.DataArray) -> str:
    return f"{abs(float(value)):.2f}"  # an entropy of 0 may come as -0.0


def _percent(share: xr.DataArray) -> str:
    return f"{100 * float(share):.1f} %"


def _range(values: xr.DataArray, form: str, unit: str = "") -> str:
    """ "93.1 to 96.0 %", or one number where both ends are written alike."""
    finite = np.abs(values.values[np.isfinite(values.values)])
    if not finite.size:
        return "diverged"
    low, high = form.format(finite.min()), form.format(finite.max())
    return f"{low}{unit}" if low == high else f"{low} to {high}{unit}"


def _listed(parts: Iterable[str]) -> str:
    several = list(parts)
    return several[0] if len(several) == 1 else f"{', '.join(several[:-1])} and {several[-1]}"
