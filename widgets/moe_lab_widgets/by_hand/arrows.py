"""ArrowBench: turn two rows of A in the plane of the regressors, and see each term of L4 (gated2019, eq. 8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from moe_lab.drawing import theme
from moe_lab.drawing.words import say
from moe_lab.recovery.data import Parameters
from moe_lab.recovery.landscape import L4Loss
from moe_lab.recovery.landscape.losses import Weights, minimiser
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.drawing.on_axes import write
from moe_lab_widgets.drawing.panel import Panel
from moe_lab_widgets.engine.goal import Goal, Why
from moe_lab_widgets.engine.knobs import LabKnob, offer
from moe_lab_widgets.engine.make import lab
from moe_lab_widgets.engine.record import Record

TERMS = ("overlap", "reward", "λ term", "δ term")
SHARE = 0.5
"""E[p_m]: two experts with equal shares."""
_AXES = torch.eye(3, dtype=torch.float64)
TRUTH = Parameters(_AXES[None, :2], torch.stack((_AXES[2], torch.zeros_like(_AXES[2])))[None])
"""Two orthonormal regressors, and a gate at a right angle to both."""
REACH = (-1.5, 5.0)
"""The heights between which terms are drawn."""
NEAR = 0.02
"""How far above the least loss a loss may be that counts as least."""

KNOBS = (
    LabKnob(name="angle_1", symbol="θ₁", meaning="angle of row 1 (°)", default=30.0, slider=(-90.0, 180.0, 5.0),
            main=True, effect="Turns the first row; at 0 it lies along the first regressor, at 90 along the second."),
    LabKnob(name="length_1", symbol="r₁", meaning="length of row 1", default=1.2, low=0.0, slider=(0.0, 2.0, 0.05),
            main=True, effect="Makes the first row longer."),
    LabKnob(name="angle_2", symbol="θ₂", meaning="angle of row 2 (°)", default=50.0, slider=(-90.0, 180.0, 5.0),
            main=True, effect="Turns the second row."),
    LabKnob(name="length_2", symbol="r₂", meaning="length of row 2", default=1.2, low=0.0, slider=(0.0, 2.0, 0.05),
            main=True, effect="Makes the second row longer."),
    offer(L4Loss, "mu", main=True, symbol="μ", meaning="reward",
          effect="Rewards a row that lies along one regressor more."),
    offer(L4Loss, "penalty", main=True, symbol="λ", meaning="hold on lengths", slider=(0.5, 4.0, 0.5),
          effect="Holds the rows' lengths more firmly."),
    offer(L4Loss, "ridge", main=True, symbol="δ", meaning="pull towards 0", slider=(0.0, 3.0, 0.1),
          effect="Draws all rows towards 0 more strongly."),
)  # fmt: skip


def terms(rows: Tensor, weights: Weights) -> Tensor:
    """Computes the four terms of eq. 8 whose sum is the loss.

    Args:
      rows: (..., 2, 2) the rows of A, by their products with the two true regressors.

    Returns:
      (..., 4) in the order of `TERMS`.
    """
    squares = rows**2  # (..., row, regressor)
    overlap = 2 * SHARE * squares.prod(-2).sum(-1)
    reward = -SHARE * (squares**2).sum((-1, -2)) * weights.mu
    length = ((SHARE * squares.sum(-1) - 1) ** 2).sum(-1) * weights.penalty
    return torch.stack((overlap, reward, length, squares.sum((-1, -2)) / 2 * weights.ridge), -1)


def rows_at(angles: Tensor, lengths: Tensor) -> Tensor:
    """Returns rows (..., 2, 2) from angles in degrees and lengths (..., 2)."""
    turned = torch.deg2rad(angles)
    return torch.stack((turned.cos(), turned.sin()), -1) * lengths[..., None]


def least(weights: Weights) -> tuple[float, float]:
    """Returns the least loss, and the length of the rows there.

    Raises:
      ValueError: mu is so large that there is no least loss.
    """
    rows = torch.zeros(2, 2, dtype=torch.float64)
    if 4 * SHARE * weights.penalty > weights.ridge:  # else A = 0 is the minimum
        rows = torch.as_tensor(minimiser(TRUTH, weights))[0, :, :2]
    return float(terms(rows, weights).sum()), float(rows[0, 0])


def train(
    angle_1: float,
    length_1: float,
    angle_2: float,
    length_2: float,
    mu: float,
    penalty: float,
    ridge: float,
    seed: int = 0,
) -> Iterator[dict[str, Any]]:
    """Yields the one record of a setting; nothing is trained, and nothing is drawn at random."""
    rows = rows_at(torch.tensor([angle_1, angle_2], dtype=torch.float64), torch.tensor([length_1, length_2]).double())
    weights = Weights(mu, penalty, ridge)
    lowest, length = least(weights)
    yield {"step": 0, "rows": rows.numpy(), "terms": terms(rows, weights).numpy(), "least": lowest,
           "length": length}  # fmt: skip


def furnish_plane(ax: Axes, values: Mapping[str, Any]) -> None:
    ax.set(xlim=(-2.1, 2.1), ylim=(-2.1, 2.1), xticks=(-1, 0, 1), yticks=(-1, 0, 1), aspect="equal")
    ax.axhline(0, color=theme.RULE, linewidth=0.8)
    ax.axvline(0, color=theme.RULE, linewidth=0.8)
    for x, y, name in ((1, 0, "a₁*"), (0, 1, "a₂*")):
        ax.plot([0, x], [0, y], color=theme.REFERENCE, linewidth=5, alpha=0.5, solid_capstyle="round")
        ax.text(1.2 * x + 0.06, 1.16 * y + 0.06, name, color=theme.MUTED, size=theme.TEXT_SIZE)


def draw_plane(ax: Axes, now: Record) -> None:
    for number, (x, y) in enumerate(now["rows"]):
        colour = theme.expert(number).colour
        ax.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 2.4})
        ax.plot([0, x], [0, y], color=colour, linewidth=2.4, label=f"row {number + 1}: ({x:.2f}, {y:.2f})")
        write(ax, float(x), float(y), [f"a{'₁₂'[number]}"], colour, down=-12, bold=True)


def furnish_terms(ax: Axes, values: Mapping[str, Any]) -> None:
    ax.set(xlim=(-0.6, 4.6), ylim=REACH, yticks=range(-1, 6))
    ax.set_xticks(range(5), [*TERMS, "loss"])
    ax.axhline(0, color=theme.RULE, linewidth=0.8)


def draw_terms(ax: Axes, now: Record) -> None:
    """Each bar begins where the one before has ended; the last is their sum."""
    height = 0.0
    for place, (name, term) in enumerate(zip(TERMS, now["terms"], strict=True)):
        ax.bar(place, term, bottom=height, width=0.7, color=theme.REFERENCE, label=f"{name}: {term:.3f}")
        height += float(term)
        _number(ax, place, max(height, height - float(term)), f"{float(term):+.2f}", theme.MUTED)
    ax.bar(4, height, width=0.7, color=theme.INK, label=f"loss: {height:.3f}")
    ax.plot(
        [-0.5, 4.5], [now["least"]] * 2, color=theme.FAILURE, linewidth=1, label=f"the least loss: {now['least']:.3f}"
    )
    _number(ax, 4, max(height, 0.0), f"{height:.2f}", theme.INK)


def _number(ax: Axes, place: int, height: float, words: str, colour: str) -> None:
    write(ax, place, float(np.clip(height, *REACH)), [words], colour, down=-10)


def above(now: MarkRecord) -> Tensor:
    """Returns how far the loss is above the least one."""
    return now.last("terms").sum() - now.last("least")


def caption(now: Record) -> str:
    loss, lowest = float(now["terms"].sum()), float(now["least"])
    if loss - lowest < NEAR:
        none = float(now["length"]) == 0
        return f"This is the least loss, {lowest:.2f}{': no row at all' if none else ''}."
    greatest = TERMS[int(np.argmax(now["terms"]))]
    return f"The loss is {loss:.2f}, the least is {lowest:.2f} (red). The {greatest} adds most."


LENGTH = round(20 * least(L4Loss().weights)[1]) / 20
"""Of the best rows at the default weights, as the sliders can stand."""
GOALS = (
    Goal(
        "Bring the loss down to the least one.",
        reached=lambda now: (above(now) < NEAR) & (now.last("rows").abs().max() > 0.5),
        so_far=lambda now: say("It is {:.2f} above it.", above(now)),
        keeps=("mu", "penalty", "ridge"),
        solved_by={
            "angle_1": 0.0, "angle_2": 90.0, **dict.fromkeys(("length_1", "length_2"), LENGTH)
        },
        why=Why(
            "Why do the rows not both lie along a₁*?",
            {
                "They would overlap": "The first term multiplies what both rows have of a regressor. It is 0 only if "
                "each regressor belongs to one row.",
                "The λ term would be large": "It sees the rows' lengths alone.",
                "The reward would be gone": "Each row that lies along one regressor is rewarded, whichever it is.",
            },
            measured=lambda start, end: (end.last("terms")[0] < 1e-9) & (start.last("terms")[0] > 0.1),
        ),
        seen="Exchange the rows, or turn one by 180 degrees: nothing changes. All these minima are true solutions.",
    ),
    Goal(
        "Find a δ at which the least loss is that of no rows at all, and go there.",
        reached=lambda now: (above(now) < NEAR) & (now.last("length") == 0),
        so_far=lambda now: say("At this δ the best rows are {:.2f} long.", now.last("length")),
        keeps=("mu", "penalty"),
        solved_by={"ridge": 2.5, "length_1": 0.0, "length_2": 0.0},
        why=Why(
            "What happens to the minima as δ grows?",
            {
                "The rows shrink, and then vanish": "The pull of δ on a short row is stronger than the λ term.",
                "The rows turn towards each other": "Their directions do not depend on δ.",
                "Nothing, δ only slows descent": "It moves the minimum itself.",
            },
            measured=lambda start, end: (end.last("length") == 0) & (start.last("length") > 0.5),
        ),
        seen="From δ = 4 λ E[p] = 2 λ on, A = 0 is the minimum. A small δ does less harm, but descent then takes long.",
    ),
)  # fmt: skip

ArrowBench = lab(
    "Two rows and the four terms of L₄",
    train,
    name="ArrowBench",
    about="""The loss of eq. 8 for two rows in the plane of the true regressors, term by term; nothing is trained.""",
    knobs=KNOBS,
    goals=GOALS,
    panels=(
        Panel("The rows of A", draw_plane, furnish_plane, "thick grey: the true regressors", width=440,
              margins=(50, 20, 84, 40)),
        Panel("What they cost", draw_terms, furnish_terms, "grey bars add up to the black one; red: the least loss",
              width=660, margins=(56, 20, 84, 40)),
    ),
    caption=caption,
    progress=lambda now: "expectations; nothing is trained",
)  # fmt: skip
