"""Heads and empty Axes for each kind of picture of pruning2024; places are in pixels from the top left."""

from __future__ import annotations

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from moe_lab.core.words import counted
from moe_lab.drawing import theme
from moe_lab.drawing.pictures import heads, row
from moe_lab.pruning.captions import darkest, settings_of, shown, signed

_TOP, _TALL = 88.0, 292.0
_STARTS = {"PlantedStart": "planted", "RandomStart": "random", "BranchStart": "pre-trained"}


def routers(data: xr.Dataset, page: Figure) -> list[Axes]:
    """Five Axes: norms; router and neurons of the large expert; router and neurons of the small one."""
    trial, seed = int(data["shown_trial"]), int(data.attrs["seed"])
    theme.header(page, 12, 1, "A few routers grow large", f"trial {trial} of seed {seed}, from tiny random weights")
    made = [theme.axes(page, 62, _TOP, 420, _TALL)]
    most = darkest(data)
    scale = f"darkest: {signed(most[0])} (router), {signed(most[1])} (neurons)"
    notes = [f"components along the patterns\n{scale}", "the same, on the same scale"]
    for number, (left, role) in enumerate(((566, "large"), (834, "small"))):
        expert, _ = shown(data, role)
        size = role if role == "small" or data["large"].sel(trial=trial, expert=expert) else "largest"
        theme.header(page, (514, 822)[number], 2 + number, f"Expert {expert}: {size} router", notes[number])
        made += [theme.axes(page, left, _TOP, 250, 34), theme.axes(page, left, _TOP + 44, 250, _TALL - 44)]
    return made


def criteria(data: xr.Dataset, page: Figure) -> list[Axes]:
    """An Axes for Delta and one for each value of fine_tuned."""
    settings = settings_of(data)
    start = _STARTS.get(settings["start"]["kind"], settings["start"]["kind"])
    two = data.sizes["fine_tuned"] == 2
    theme.header(page, 12, 1, "Which routers moved", f"{start} start, {settings['model']['routing']}")
    made = [theme.axes(page, 62, _TOP, 244 if two else 420, _TALL - 12)]
    note = f"median of {counted(data.sizes['trial'])}"
    if "random" in data["criterion"]:
        note += "; grey: range of random"
    titles = {"After pruning": note, "… and fine-tuning": f"{data.attrs['fine_tuning_steps']} steps on fresh samples"}
    places = [(352.0, 156.0), (748.0, 156.0)] if two else [(590.0, 312.0)]
    for number, ((left, wide), title) in enumerate(zip(places, titles, strict=False)):
        theme.header(page, left - 44, number + 2, title, titles[title])
        made.append(theme.axes(page, left, _TOP, wide, _TALL))
    return made


def efficiency(data: xr.Dataset, page: Figure) -> list[Axes]:
    """Three Axes."""
    settings = settings_of(data)
    whole = data.sel(rho=0.0)
    amounts = [
        _both(whole["operations"] / 1e6, "{:.0f}", "MFLOP"),
        _both(whole["bytes"] / 1e6, "{:.0f}", "MB"),
        _both(1e3 * whole["seconds"].median("repeat"), "{:.1f}", "ms"),
    ]
    size = f"k = {settings['experts']}, d = {settings['dimension']}, m = {settings['neurons']}"
    calls = f"{counted(settings['samples'], 'sample')}, marks: {counted(data.sizes['repeat'], 'run')}"
    titles = {
        "FLOPs of a sample": "line: formula, marks: torch's counter",
        "Memory of the layer": size,
        "Inference time": calls,
    }
    notes = [f"100 % = {amount}\n{note}" for amount, note in zip(amounts, titles.values(), strict=True)]
    heads(page, *zip((12, 370, 728), titles, notes, strict=True))
    return row(page, 3, 64, 964, _TOP + 12, _TALL - 12, gap=174)


def _both(values: xr.DataArray, form: str, unit: str) -> str:
    """One number, or those of all routings where they are written differently."""
    written = dict.fromkeys(form.format(float(value)) for value in values)
    return f"{' and '.join(written)} {unit}"
