"""PullBench: turn a router by hand, and see which way one sample pulls it (pmoe2023, eq. 26)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from moe_lab.drawing import theme
from moe_lab.drawing.words import say
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.drawing.on_axes import write
from moe_lab_widgets.drawing.panel import Panel
from moe_lab_widgets.engine.goal import Goal, Why
from moe_lab_widgets.engine.knobs import LabKnob
from moe_lab_widgets.engine.make import lab
from moe_lab_widgets.engine.record import Record

PATCHES = ((1.0, 0.0), (0.0, 1.0))
"""x1, which is o1, and x2, which means nothing."""
NAMES = ("x⁽¹⁾ = o₁", "x⁽²⁾")
FACTORS = ("S − S̄", "G", "v", "pull")
STILL = 0.02
"""The length of a pull that hardly moves the router."""

KNOBS = (
    LabKnob(name="angle", symbol="θ", meaning="angle of w (°)", default=45.0, slider=(-90.0, 180.0, 5.0), main=True,
            effect="Turns the router; at 0 it looks for patch 1, at 90 for patch 2."),
    LabKnob(name="length", symbol="‖w‖", meaning="length of w", default=1.0, low=0.0, slider=(0.0, 5.0, 0.25),
            main=True,
            effect="Scores differ more, and the gates are more decided."),
    LabKnob(name="first", symbol="S₁", meaning="neurons on patch 1", default=2.0, slider=(-2.0, 5.0, 0.25), main=True,
            effect="The expert's neurons speak more for class + on patch 1."),
    LabKnob(name="second", symbol="S₂", meaning="neurons on patch 2", default=0.0, slider=(-2.0, 5.0, 0.25), main=True,
            effect="The same on patch 2."),
)  # fmt: skip


def pull_of(router: Tensor, says: Tensor) -> dict[str, Tensor]:
    """Computes the three numbers of a sample of class + with two patches, and the pull on its router.

    Args:
      router: (2,) w, by its products with the two patches.
      says: (2,) S_j, what the neurons say of each patch, divided by l.

    Returns:
      gates, gain (S_j minus the mean), v, and pull (2,), minus the gradient of the logistic loss.
    """
    gates = router.softmax(0)
    f = gates @ says
    gain, v = says - f, torch.sigmoid(-f)
    return {"gates": gates, "gain": gain, "v": v, "f": f, "pull": v * gates * gain}


def train(angle: float, length: float, first: float, second: float, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Yields the one record of a setting; nothing is trained, and nothing is drawn at random."""
    turned = np.deg2rad(angle)
    router = torch.tensor([np.cos(turned), np.sin(turned)], dtype=torch.float64) * length
    found = pull_of(router, torch.tensor([first, second], dtype=torch.float64))
    yield {"step": 0, "router": router.numpy(), **{name: one.numpy() for name, one in found.items()}}


def furnish_plane(ax: Axes, values: Mapping[str, Any]) -> None:
    ax.set(xlim=(-1.6, 2.6), ylim=(-1.6, 2.6), xticks=(-1, 0, 1, 2), yticks=(-1, 0, 1, 2), aspect="equal")
    ax.axhline(0, color=theme.RULE, linewidth=0.8)
    ax.axvline(0, color=theme.RULE, linewidth=0.8)
    for (x, y), name in zip(PATCHES, NAMES, strict=True):
        ax.plot(x, y, "s", color=theme.CLASSES[0] if x else theme.REFERENCE, markersize=11)
        ax.text(x + 0.12, y + 0.1, name, color=theme.MUTED, size=theme.TEXT_SIZE)


def draw_plane(ax: Axes, now: Record) -> None:
    (x, y), (dx, dy) = now["router"], 3 * now["pull"]
    ax.plot([0, x], [0, y], color=theme.INK, linewidth=2.4, label=f"w = ({x:.2f}, {y:.2f})")
    write(ax, float(np.clip(x, -1.5, 2.5)), float(np.clip(y, -1.5, 2.5)), ["w"], theme.INK, down=-12, bold=True)
    if np.hypot(dx, dy) > 3 * STILL:
        style = {"arrowstyle": "-|>", "color": theme.FAILURE, "linewidth": 2.4}
        ax.annotate("", (x + dx, y + dy), (x, y), arrowprops=style)
    ax.plot([x, x + dx], [y, y + dy], color=theme.FAILURE, linewidth=2.4, label=f"the pull, three times as long: "
            f"({dx / 3:.2f}, {dy / 3:.2f})")  # fmt: skip


def furnish_numbers(ax: Axes, values: Mapping[str, Any]) -> None:
    ax.set(xlim=(-0.6, 3.6), ylim=(-2.4, 2.6), yticks=(-2, -1, 0, 1, 2))
    words = "a larger\ngate would gain", "how far the\ngate can move", "what is\nleft to gain", "their\nproduct"
    ax.set_xticks(range(4), [f"{name}: {told}" for name, told in zip(FACTORS, words, strict=True)])
    ax.axhline(0, color=theme.RULE, linewidth=0.8)


def draw_numbers(ax: Axes, now: Record) -> None:
    v = np.full(2, float(now["v"]))
    for place, values in enumerate((now["gain"], now["gates"], v, now["pull"])):
        for patch, value in enumerate(values):
            at = place + (-0.19, 0.19)[patch]
            colour = theme.FAILURE if place == 3 else (theme.CLASSES[0], theme.REFERENCE)[patch]
            ax.bar(at, value, width=0.34, color=colour, label=f"{FACTORS[place]}, patch {patch + 1}: {value:.3f}")
            high = float(np.clip(value, -2.3, 2.5))
            write(ax, at, high, [f"{round(float(value), 2) + 0.0:.2f}"], theme.MUTED, down=-9 if value >= 0 else 9)


def size(now: MarkRecord) -> Tensor:
    """Returns the length of the pull."""
    return now.last("pull").norm()


def caption(now: Record) -> str:
    f, pull = float(now["f"]), now["pull"]
    right = f"The output is {f:.2f}, so the sample is {'right' if f > 0 else 'wrong'}."
    if np.hypot(*pull) < STILL:
        return f"{right} The router stands still."
    return f"{right} The router is pulled towards patch {1 if pull[0] > 0 else 2}, and away from the other one."


def told(now: MarkRecord) -> Any:
    return say("The pull is {:.2f} long, the output {:.1f}.", size(now), now.last("f"))


GOALS = (
    Goal(
        "Make the router stand still although o₁ would help: S₁ = 2, S₂ = 0.",
        reached=lambda now: (size(now) < STILL) & (now.last("f") < 0.5),
        so_far=told,
        keeps=("first", "second"),
        solved_by={"angle": 90.0, "length": 5.0},
        why=Why(
            "Why does it not turn to o₁?",
            {
                "Its gate for o₁ is nearly 0": "A score moves its gate in proportion to the gate itself. A patch that "
                "is nearly shut out cannot ask to be let in.",
                "The sample is right already": "The output is near 0: v is one half, and there is much to gain.",
                "The neurons say the same of both patches": "They say 2 of one and 0 of the other.",
            },
            measured=lambda start, end: (end.last("gates")[0] < 0.02) & (end.last("v") > 0.4),
        ),
        seen="So routers begin small: then all gates are alike, and every patch can pull.",
    ),
    Goal(
        "Have the router turn away from o₁.",
        reached=lambda now: now.last("pull")[0] < -0.1,
        so_far=told,
        keeps=("angle", "length"),
        solved_by={"first": 0.0, "second": 2.0},
        why=Why(
            "Who decides which way it turns?",
            {
                "The neurons": "The patch on which they speak more for the right class pulls, whichever it is. Nobody "
                "tells the router which patch is o₁.",
                "The class pattern itself": "The router knows no pattern. The same patch pulled it before.",
                "The router's own direction": "It did not change.",
            },
            measured=lambda start, end: (start.last("pull")[0] > 0.1) & (end.last("gain")[0] < 0),
        ),
        seen="Early in training neurons are random, too. A router may begin towards the wrong patch, and turn when "
        "they have learned.",
    ),
    Goal(
        "Make the router stand still because the sample is safely right.",
        reached=lambda now: (size(now) < STILL) & (now.last("f") > 3),
        so_far=told,
        solved_by={"first": 5.0, "angle": 0.0, "length": 3.0},
        why=Why(
            "Which number is small now?",
            {
                "v": "v = 1 / (1 + e^f) is near 0 where f is large: there is nothing left to gain.",
                "The gate of o₁": "It is near 1.",
                "S₁ minus the mean": "It is small as well, since nearly all of the mean is S₁. But v alone would do.",
            },
            measured=lambda start, end: (end.last("v") < 0.03) & (start.last("v") > 0.2),
        ),
        seen="Samples that are safely right no longer teach. What is left to learn comes from the others.",
    ),
)

PullBench = lab(
    "One router, two patches, three numbers",
    train,
    name="PullBench",
    about="""The pull of one sample on the router of an expert that keeps two patches; nothing is trained.""",
    knobs=KNOBS,
    goals=GOALS,
    panels=(
        Panel("The router", draw_plane, furnish_plane, "red: where a sample pulls it (three times as long)", width=440,
              margins=(50, 20, 84, 40)),
        Panel("Three numbers for each patch", draw_numbers, furnish_numbers, "blue: patch 1, grey: patch 2", width=660,
              margins=(50, 20, 84, 60)),
    ),
    caption=caption,
    progress=lambda now: "one sample; nothing is trained",
)  # fmt: skip
