"""Where three kinds of routing send the same patches: the gates, a table of each, and one sentence on all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.colors import to_hex
from numpy.typing import NDArray

from moe_lab.core.config import require
from moe_lab.core.errors import InputError
from moe_lab.core.routing import softmax_among
from moe_lab.core.sentences import brief
from moe_lab.course.routing_table import Rule, route
from moe_lab.drawing import theme

_TABLE = f"border-collapse: separate; border-spacing: 2px; color: {theme.INK}; font: 13px/1.3 sans-serif; margin: 0;"
_CELL = "box-sizing: border-box; height: 30px; min-width: 44px; padding: 0 3px; text-align: center;"
_DROPPED = "<b style='font-size: 11px'>× dropped</b>"
_BADGE = "line-height: 22px; text-align: center; width: 22px"


class Fate(NamedTuple):
    """What one kind of routing does.

    Attributes:
      name: "expert choice, l = 2".
      gates: (experts, patches), 0 where a patch is not routed.
    """

    name: str
    gates: NDArray[np.float64]


def fates(
    powers: NDArray[np.float64],
    patches: int,
    experts: int,
    noise: float,
    seed: int,
    own: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
) -> tuple[Fate, ...]:
    """Routes by expert choice, token choice and switch.

    Args:
      powers: exp(score), (experts, patches).
      patches: l, that each expert keeps.
      experts: that each patch picks.
      noise: the noise of switch routing is uniform between 0 and this.
      seed: of the noise.
      own: a learner's functions, of OWN, that route in place of the library's.

    Raises:
      ValueError: one of these has raised an error, or does not return what its exercise asks for.
    """
    import pandas as pd  # Labs are imported before their first picture

    rows = np.log(powers)
    scores, drawn = pd.DataFrame(rows), noise * np.random.default_rng(seed).random(rows.shape)

    def keeping(ask: Callable[..., Any]) -> NDArray[np.float64]:
        kept = torch.from_numpy(np.array([ask(row, patches) for row in rows]).astype(bool))
        return softmax_among(torch.from_numpy(rows), kept).numpy()

    def library(kind: Rule, **settings: Any) -> NDArray[np.float64]:
        return route(scores, kind, **settings).to_numpy()

    kinds: tuple[tuple[str, Callable[[], NDArray[np.float64]], Callable[..., Any]], ...] = (
        (f"expert choice, l = {patches}", lambda: library("expert-choice", l=patches), keeping),
        (
            f"token choice, {experts} of {len(powers)} experts",
            lambda: library("token-choice", top=experts),
            lambda ask: ask(rows.T, experts).T,
        ),
        (
            "switch" + (f", noise {noise:g}" if noise else ""),
            lambda: library("switch", noise=drawn),
            lambda ask: ask(rows.T, drawn.T).T,
        ),
    )
    routed = []
    for mine, (name, by_library, by_learner) in zip(OWN, kinds, strict=True):
        if mine in own:
            routed.append(Fate(f"{name}, by your {mine}", _asked(own[mine], mine, by_learner, rows.shape)))
        else:
            routed.append(Fate(name, by_library()))
    return tuple(routed)


OWN = ("top_l", "token_choice", "switch")
"""The exercises of notebook 01 whose functions route: one for each kind."""


def _asked(
    function: Callable[..., Any], name: str, route: Callable[..., NDArray[np.float64]], shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Returns the gates (experts, patches) that a learner's function gives."""
    try:
        gates = route(lambda *given: np.array(function(*(np.array(one) for one in given)), dtype=float))
    except Exception as error:  # whatever it may be: the function is a learner's
        said = f"{type(error).__name__}: {brief(str(error))}"
        raise InputError(f"{name} must run before it can be tried: {said}") from error
    fits = gates.shape == shape and bool(np.isfinite(gates).all())
    require(fits, f"{name} must return what its exercise asks for; run its check first", shape=gates.shape)
    return gates


def as_html(fate: Fate) -> str:
    """Returns a table with a row for each expert; a framed cell is routed, its shade and number are the gate."""
    numbers = range(1, fate.gates.shape[1] + 1)
    heads = "".join(f"<th scope='col' style='font-weight: normal'>patch {j}</th>" for j in numbers)
    rows = [f"<tr><td></td>{heads}<td></td></tr>"]
    for s, gates in enumerate(fate.gates):
        cells = "".join(_cell(gate) for gate in gates)
        count = int((gates > 0).sum())
        words = f"{count} patch{'es' * (count != 1)}" if count else "<b>idle</b>"
        rows.append(f"<tr><th scope='row' style='padding: 0'>{badge(s)}</th>{cells}<td>{words}</td></tr>")
    counts = (fate.gates > 0).sum(axis=0)
    feet = "".join(f"<td style='text-align: center'>{f'to {one}' if one else _DROPPED}</td>" for one in counts)
    rows.append(f"<tr><td></td>{feet}<td></td></tr>")
    caption = f"<caption style='font-weight: bold; padding: 2px 0; text-align: left'>{fate.name}</caption>"
    return f"<table style='{_TABLE}'>{caption}{''.join(rows)}</table>"


def in_words(routed: Sequence[Fate]) -> str:
    """Returns a sentence on each kind of routing: which patches it drops and which experts it leaves idle."""
    return " ".join(_sentence(fate) for fate in routed)


def _sentence(fate: Fate) -> str:
    used = fate.gates > 0
    dropped, idle = np.flatnonzero(~used.any(axis=0)), np.flatnonzero(~used.any(axis=1))
    said = []
    if len(dropped):
        said.append(f"drops {_listed('patch', 'patches', dropped)}")
    if len(idle):
        said.append(f"leaves {_listed('expert', 'experts', idle)} idle")
    if not said:
        even = len(set(used.sum(axis=1))) == 1
        said.append("uses every patch" + (" and gives all experts equally many" if even else " and every expert"))
    return f"{fate.name.partition(',')[0].capitalize()} {' and '.join(said)}."


def _listed(one: str, several: str, places: NDArray[np.intp]) -> str:
    """Returns "patch 4" or "patches 1, 2 and 4" for places counted from 0."""
    *rest, last = (str(place + 1) for place in places)
    return f"{several} {', '.join(rest)} and {last}" if rest else f"{one} {last}"


def _cell(gate: float) -> str:
    if gate <= 0:
        return f"<td style='{_CELL} border: 1px solid {theme.RULE}'></td>"
    look = (
        f"border: 2px solid {theme.INK}; background: {to_hex(theme.RAMP(min(gate, 1.0)))}; color: {theme.ink_on(gate)}"
    )
    return f"<td style='{_CELL} {look}'>{gate:.2f}</td>"


def badge(expert: int) -> str:
    """Returns the number of an expert, counted from 0, in its colour and shape."""
    style = theme.expert(expert)
    round_ = "50%" if style.marker == "o" else "3px"
    look = f"background: {style.colour}; color: {style.on}; border-radius: {round_}; display: inline-block"
    return f"<span aria-label='expert {expert + 1}' style='{look}; {_BADGE}'>{expert + 1}</span>"
