"""A small real Lab: logistic regression in torch, six trials at once, so that the machinery has work to do."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from moe_lab.core.config import Config, knob, require
from moe_lab.core.snapshots import Measure, Snapshot
from moe_lab.drawing import theme
from moe_lab_widgets import LabKnob, Panel, Story, lab, offer
from moe_lab_widgets.engine.lab import Lab
from moe_lab_widgets.engine.record import Record

MEASURES = {"accuracy": Measure((), "", "training accuracy"), "loss": Measure((), "", "mean logistic loss")}


class Blobs(Config):
    """Two Gaussian blobs and a linear classifier."""

    samples: int = knob(80, symbol="N", meaning="training samples", ge=2, slider=(10, 200, 10))
    gap: float = knob(1.0, symbol="g", meaning="distance between the blobs", ge=0, slider=(0, 4, 0.1))
    learning_rate: float = knob(0.5, symbol="lr", meaning="step size", gt=0, slider=(0.1, 5, 0.1))
    epochs: int = knob(40, meaning="steps of the run", ge=1, slider=(10, 200, 10))

    def model_post_init(self, _: Any) -> None:
        require(self.samples % 4 == 0 or self.samples < 150, "samples (N) must be a multiple of 4", N=self.samples)


def train(blobs: Blobs, *, seed: int = 0, trials: int = 6, seconds: float = 0.0) -> Iterator[Snapshot]:
    """Full-batch gradient descent on the logistic loss, one weight vector a trial."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(blobs.samples) % 2 * 2.0 - 1
    points = torch.randn(trials, blobs.samples, 2, generator=generator)
    points[..., 0] += labels * blobs.gap / 2
    weights = torch.zeros(trials, 2)
    for step in range(blobs.epochs + 1):
        margins = labels * (points @ weights[..., None])[..., 0]
        loss = torch.nn.functional.softplus(-margins).mean(-1)
        values = {"accuracy": (margins > 0).float().mean(-1).numpy(), "loss": loss.numpy()}
        done = np.full(trials, step == blobs.epochs)
        lost = ~np.isfinite(values["loss"])
        steps = np.full(trials, step)
        yield Snapshot(step, values, MEASURES, steps, done, lost, origin={"seed": seed, "config": blobs.code()})
        slope = -(labels * torch.sigmoid(-margins))[..., None] * points
        weights = weights - blobs.learning_rate * slope.mean(-2)
        if seconds:
            time.sleep(seconds)


def run(
    samples: int, gap: float, learning_rate: float, epochs: int, delay: float, trouble: str, seed: int = 0
) -> Iterator[Snapshot]:
    """The run of a TinyLab: each step takes `delay` ms longer, and in the middle there may be trouble."""
    blobs = Blobs(samples=samples, gap=gap, learning_rate=learning_rate, epochs=epochs)
    return _troubled(train(blobs, seed=seed, seconds=delay / 1000), trouble)


def _troubled(snapshots: Iterator[Snapshot], trouble: str) -> Iterator[Snapshot]:
    for snapshot in snapshots:
        if trouble == "error" and snapshot.step == 5:
            raise OSError("the disk is on fire")
        if trouble == "divergence" and snapshot.step >= 5:
            snapshot.diverged[[1, 3]] = True
        yield snapshot


drawn: WeakKeyDictionary[Figure, list[Record]] = WeakKeyDictionary()
"""All moments that the first panel of a picture has drawn, by its figure."""


def shown(lab: Any) -> list[Record]:
    """The moments that a Lab's picture has drawn, the present one last."""
    return drawn[lab.picture.figure]


def furnish_accuracy(ax: Axes, values: Mapping[str, Any]) -> None:
    ax.set(xlim=(0, values["epochs"]), ylim=(0, 1.05), xlabel="step")


def draw_accuracy(ax: Axes, now: Record) -> None:
    figure = ax.get_figure(root=True)
    assert figure is not None
    drawn.setdefault(figure, []).append(now)
    steps, values = now.curve("accuracy")
    for trial in values.T:
        ax.plot(steps, trial, color=theme.INK, linewidth=0.8, label="accuracy of a trial")


def furnish_loss(ax: Axes, values: Mapping[str, Any]) -> None:
    ax.set(xlim=(0, values["epochs"]), ylim=(0, 1), xlabel="step")


def draw_loss(ax: Axes, now: Record) -> None:
    steps, values = now.curve("loss")
    ax.plot(steps, values.mean(1), color=theme.INK, label="mean loss")


def caption(now: Record) -> str:
    return f"Step {now.step}: accuracy {100 * now['accuracy'].mean():.0f} %, loss {now['loss'].mean():.2f}."


PANELS = (
    Panel("Accuracy", draw_accuracy, furnish_accuracy, "six trials"),
    Panel("Loss", draw_loss, furnish_loss, "mean of six trials"),
)
PARTS: Mapping[str, Any] = {
    "name": "TinyLab",
    "knobs": (
        offer(Blobs, "samples"),
        offer(Blobs, "gap", default=2.0),
        offer(Blobs, "learning_rate"),
        offer(Blobs, "epochs"),
        LabKnob(name="delay", meaning="pause after a step in ms", default=0.0, low=0, unit="ms", slider=(0, 50, 1)),
        LabKnob(
            name="trouble", meaning="what goes wrong", default="nothing", choices=("nothing", "error", "divergence")
        ),
    ),
    "panels": PANELS,
    "steps": lambda values: int(values["epochs"]),
    "caption": caption,
    "stories": (
        Story("Far apart", {"gap": 4.0}, "The accuracy reaches 100 %."),
        Story("On top of each other", {"gap": 0.0, "epochs": 60}, "The accuracy stays near 50 %."),
    ),
}


def tiny(train: Callable[..., Iterable[Any]] = run, **changes: Any) -> type[Lab]:
    """Returns a tiny Lab with some parts changed; `train` may be a function that `wraps` the run."""
    return lab("Tiny lab", _naming(train, changes.get("knobs", ())), **{**PARTS, **changes})


def _naming(train: Callable[..., Iterable[Any]], knobs: Iterable[LabKnob]) -> Callable[..., Iterable[Any]]:
    """Returns a function that names knobs of which the run makes nothing, too."""
    known = inspect.signature(train).parameters
    idle = [knob.name for knob in knobs if knob.name not in known and not knob.view_only]
    if not idle:
        return train

    @functools.wraps(train)
    def naming(**values: Any) -> Iterable[Any]:
        return train(**{name: value for name, value in values.items() if name not in idle})

    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in idle]
    naming.__signature__ = inspect.Signature([*known.values(), *more])  # type: ignore[attr-defined]
    return naming


TinyLab = tiny()
