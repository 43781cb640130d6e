"""MomentBench: turn the coefficients of a polynomial until a moment holds the regressors alone (gridlock2019, app. C).

Two experts with orthogonal regressors a and b of length 1, a gate w at a right angle to both, and Gaussian inputs. All
numbers are expectations: what would be measured on infinitely many samples, and how much n of them would scatter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from numpy.polynomial.hermite_e import hermegauss, hermeval
from numpy.typing import NDArray

from moe_lab.drawing import theme
from moe_lab.drawing.words import say
from moe_lab.recovery.activations import activation_of
from moe_lab.recovery.printed import printed
from moe_lab.recovery.transforms import polynomial, quadrature, transforms
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.drawing.on_axes import write
from moe_lab_widgets.drawing.panel import Panel
from moe_lab_widgets.engine.goal import Goal, Why
from moe_lab_widgets.engine.knobs import LabKnob
from moe_lab_widgets.engine.make import lab
from moe_lab_widgets.engine.record import Record
from moe_lab_widgets.engine.story import Story

BARS = ("aaa", "aaw", "aww", "www", "noise")
GATE, LEAD = 2.0, -1.0
"""The gate's length, and its head start: expert a answers with probability sigmoid(GATE x_w + LEAD)."""
RELU, SIGMA = "relu", 0.5
REACH = (-0.8, 2.6)
"""The heights between which bars are drawn."""
GONE = 0.02
"""Parts of the bar aaa that a bar must be below to count as gone."""

KNOBS = (
    LabKnob(name="alpha", symbol="α", meaning="factor of y²", default=0.0, slider=(-5.0, 2.0, 0.05), main=True,
            effect="Adds an even part to what an expert's output becomes."),
    LabKnob(name="beta", symbol="β", meaning="factor of y", default=0.0, slider=(-6.0, 3.0, 0.05), main=True,
            effect="Adds a straight line to what an expert's output becomes."),
    LabKnob(name="sigma", symbol="σ", meaning="noise on y", default=0.0, low=0.0, slider=(0.0, 1.0, 0.1), main=True,
            effect="Other coefficients make the bars vanish, and more samples are needed."),
    LabKnob(name="activation", symbol="g", meaning="experts' activation", default="identity",
            choices=("identity", RELU), main=True, effect="A ReLU has an even part, which needs α."),
    LabKnob(name="samples", symbol="n", meaning="samples", default=10000,
            choices=(1000, 3000, 10000, 30000, 100000), main=True, effect="Measured bars scatter less."),
)  # fmt: skip


def moments(alpha: float, beta: float, sigma: float, activation: str, samples: int) -> dict[str, NDArray[np.float64]]:
    """Computes what stands in the moment of P(y) = y³ + αy² + βy against the third Hermite tensor of x.

    Returns:
      bars: (5,) its entries along a, a, a; a, a, w; a, w, w; w, w, w; and the standard error of the first.
      z, s: the product <a, x> on a grid, and E[P(Y) | <a, x>].
    """
    g = activation_of(activation)
    nodes, weights = quadrature(g.kinks)
    noise, of_noise = hermegauss(16)
    of_noise = of_noise / of_noise.sum()

    def given(z: NDArray[np.float64], power: int) -> NDArray[np.float64]:
        y = g(torch.as_tensor(z)).numpy()[:, None] + sigma * noise
        return np.asarray((y**3 + alpha * y**2 + beta * y) ** power @ of_noise)

    solved = polynomial(activation, sigma, (beta, alpha, 1.0))
    of_expert = (*solved.residuals, solved.strength)  # E[S He_1], E[S He_2], E[S He_3]
    hermite = np.stack([hermeval(nodes, np.eye(4)[j]) for j in range(4)])
    chosen = (weights / (1 + np.exp(-GATE * nodes - LEAD))) @ hermite.T  # E[p He_j]
    # along w, w, w both experts have E[S], and their gates add up to 1
    entries = [*(of_expert[2 - j] * chosen[j] for j in range(3)), 0.0]
    squares = given(nodes, 2) * weights
    second = chosen[0] * (squares @ hermite[3] ** 2) + (1 - chosen[0]) * squares.sum() * (weights @ hermite[3] ** 2)
    error = np.sqrt(max(second - entries[0] ** 2, 0.0) / samples)
    grid = np.linspace(-3, 3, 121)
    return {"bars": np.array([*entries, error]), "z": grid, "s": given(grid, 1)}


def train(
    alpha: float, beta: float, sigma: float, activation: str, samples: int, seed: int = 0
) -> Iterator[dict[str, Any]]:
    """Yields the one record of a setting; nothing is trained, and nothing is drawn at random."""
    yield {"step": 0, **moments(alpha, beta, sigma, activation, samples)}


def furnish_bars(ax: Axes, values: Mapping[str, Any]) -> None:
    ax.set(xlim=(-0.6, 4.6), ylim=REACH, yticks=(0, 1, 2))
    ax.set_xticks(range(5), ["a a a", "a a w", "a w w", "w w w", "± noise"])
    ax.axhline(0, color=theme.RULE, linewidth=0.8)


def draw_bars(ax: Axes, now: Record) -> None:
    *entries, error = now["bars"]
    least = GONE * abs(entries[0])
    for place, (name, entry) in enumerate(zip(BARS, entries, strict=False)):
        wanted = place == 0
        gone = not wanted and abs(entry) <= max(least, 1e-9)
        colour = theme.INK if wanted else theme.REFERENCE if gone else theme.FAILURE
        ax.bar(place, entry, width=0.7, color=colour, label=f"along {' '.join(name)}: {entry:.3f}")
        down = -10 if entry >= 0 else 10
        write(
            ax, place, float(np.clip(entry, *REACH)), [f"{round(entry, 2) + 0.0:.2f}"], colour, down=down, bold=wanted
        )
    ax.bar(4, 2 * error, bottom=-error, width=0.7, color=theme.BACKGROUND, label=f"standard error of aaa: {error:.3f}")
    write(ax, 4, min(error, REACH[1]), [f"±{error:.2f}"], theme.MUTED, down=-10)


def furnish_curve(ax: Axes, values: Mapping[str, Any]) -> None:
    ax.set(xlim=(-3, 3), ylim=(-14, 14), xticks=(-3, 0, 3), yticks=(-10, 0, 10), xlabel="⟨a, x⟩")
    ax.axhline(0, color=theme.RULE, linewidth=0.8)
    grid = np.linspace(-3, 3, 121)
    ax.plot(grid, hermeval(grid, (0, 0, 0, 1)), color=theme.REFERENCE, linestyle=":", label="He₃")


def draw_curve(ax: Axes, now: Record) -> None:
    ax.plot(now["z"], now["s"], color=theme.INK, linewidth=2.2, label="E[P(y) | ⟨a, x⟩]")


def with_w(now: MarkRecord) -> torch.Tensor:
    """Returns the largest of the bars with a w, in parts of the bar aaa."""
    bars = now.last("bars").abs()
    return bars[1:4].max() / bars[0]


def caption(now: Record) -> str:
    *entries, error = now["bars"]
    there = [abs(entry) > GONE * abs(entries[0]) for entry in entries[1:]]
    left = [" ".join(name) for name, stands in zip(BARS[1:4], there, strict=True) if stands]
    if not left:
        found = "Only the regressor is left in the moment: every bar with a w is gone."
    else:
        found = f"The gate w is still in the moment: {' and '.join(left)} {'is' if len(left) == 1 else 'are'} not gone."
    needed = 3 * error < abs(entries[0])
    return f"{found} The bar a a a is {'more' if needed else 'less'} than three standard errors high."


def _gone(asks: str, start: dict[str, Any], solved_by: dict[str, Any], why: Why, seen: str) -> Goal:
    return Goal(
        asks,
        reached=lambda now: with_w(now) < GONE,
        so_far=lambda now: say("The largest bar with a w is {:.0%} of a a a.", with_w(now)),
        start=start,
        keeps=("sigma", "activation"),
        solved_by=solved_by,
        why=why,
        seen=seen,
    )


def _nearest(g: str, sigma: float) -> dict[str, float]:
    """Returns the coefficients that solve appendix C's equations, as the sliders can stand."""
    beta, alpha, _ = transforms(g, sigma).p3.coefficients
    return {"alpha": round(20 * alpha) / 20, "beta": round(20 * beta) / 20}


GOALS = (
    _gone(
        "Make every bar with a w vanish, without noise.",
        {},
        _nearest("identity", 0.0),
        Why(
            "What has β taken away?",
            {
                "The straight part of y³": "z³ is He₃ plus 3z. With β = −3 only He₃ is left, whose slope is 0 on "
                "average over Gaussian inputs.",
                "The gate": "The gate is as it was. Its derivatives are multiplied by an average that is now 0.",
                "The noise": "There is none here.",
            },
            measured=lambda start, end: end.values.number("beta") < -2.5,
        ),
        "The entry a w w is E[S′] times a derivative of the gate, and E[S′] = 3 + β.",
    ),
    _gone(
        "The same with noise, σ = 1.",
        {"sigma": 1.0, "beta": -3.0},
        _nearest("identity", 1.0),
        Why(
            "Why does the noise move β?",
            {
                "It adds 3σ² to the straight part": "E[Y³ | Z] = Z³ + 3σ²Z. So β = −3(1 + σ²).",
                "It hides the regressors": "It makes the last bar higher. The other bars are expectations: they "
                "know no chance.",
                "It makes the gates softer": "The gates do not depend on the noise.",
            },
            measured=lambda start, end: end.values.number("beta") < start.values.number("beta") - 0.5,
        ),
        "Now change σ and follow with β: −3, −3.27, −3.75, −6 for σ = 0, .3, .5, 1.",
    ),
    _gone(
        "The same with ReLU experts, σ = .5. Here α is needed, too.",
        {"sigma": SIGMA, "activation": RELU, "beta": -3.75},
        _nearest(RELU, SIGMA),
        Why(
            "What does α do that β cannot?",
            {
                "It takes away the even part": "A ReLU is half straight, half even. The bar a a w is E[S″] times the "
                "gate's slope, and a straight line has no second derivative.",
                "It makes up for the noise": "Noise calls for another β alone.",
                "It makes the bar a a a higher": "That is not what it is for; at the solution the bar is lower.",
            },
            measured=lambda start, end: abs(float(start.last("bars")[1])) > 0.1,
        ),
        "Two bars, two coefficients: two linear equations. The exercise solves them.",
    ),
)
STORIES = (
    Story(
        "The printed polynomial for ReLU",
        {
            "activation": RELU,
            "sigma": SIGMA,
            **dict(zip(("beta", "alpha"), (round(20 * one) / 20 for one in next(
                one.polynomial.coefficients for one in printed(RELU, SIGMA) if one.name == "P3")), strict=False)),
        },
        "With the coefficients that the paper prints a bar with a w is left standing.",
    ),
)  # fmt: skip

MomentBench = lab(
    "A moment without the gate",
    train,
    name="MomentBench",
    about="""What a polynomial of y leaves in a moment, bar by bar; nothing is trained.

    Two experts with orthogonal regressors, and a gate w at a right angle to both.
    """,
    knobs=KNOBS,
    goals=GOALS,
    stories=STORIES,
    panels=(
        Panel("What stands in the moment", draw_bars, furnish_bars, "black is wanted; red has a w", width=640,
              margins=(56, 20, 84, 48)),
        Panel("What an expert's output becomes", draw_curve, furnish_curve, "E[y³ + αy² + βy | ⟨a, x⟩]; dotted: He₃",
              width=460, margins=(56, 20, 84, 60)),
    ),
    caption=caption,
    progress=lambda now: "expectations; nothing is trained",
)  # fmt: skip
