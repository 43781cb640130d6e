"""A small real Lab: logistic regression in torch, six trials at once, so that the machinery has work to do."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from moe_lab import theme
from moe_lab.config import Config, knob, require
from moe_lab.training import Measure, Snapshot
from moe_lab_widgets import Lab, LabKnob, Picture, Story, given, offer

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


class TinyPicture(Picture):
    def __init__(self, values: dict[str, Any], scale: float = 1.0) -> None:
        super().__init__(scale=scale)
        self.panels = []
        for number, (name, left) in enumerate((("accuracy", 60), ("loss", 430), ("median loss", 800))):
            theme.header(self.figure, left - 46, number + 1, name, "six trials")
            self.panels.append(theme.axes(self.figure, left, 100, 260, 290))
        self.lines = [
            [self.live(axes.plot([], [], color=theme.INK, linewidth=width)[0]) for width in (0.8,) * 6]
            for axes in self.panels
        ]
        self.pinned: list[Any] = []
        self.last: Snapshot | None = None
        self.draws = 0

    def begin(self, values: dict[str, Any]) -> None:
        for axes, high in zip(self.panels, (1.05, 1, 1), strict=True):
            self.limits(axes, x=(0, values["epochs"]), y=(0, high))

    def update(self, record: Snapshot) -> None:
        self.draws += 1
        self.last = record
        for lines, name in zip(self.lines, ("accuracy", "loss", "loss"), strict=True):
            for line, value in zip(lines, record[name], strict=True):
                line.set_data([0, record.step], [0, value])

    def pin(self, records: Sequence[Snapshot]) -> None:
        self.unpin()
        steps = [one.step for one in records]
        values = [one["loss"].mean() for one in records]
        self.pinned = self.panels[1].plot(steps, values, color=theme.REFERENCE, linestyle="--")
        self.invalidate()

    def unpin(self) -> None:
        for line in self.pinned:
            line.remove()
        self.pinned = []
        self.invalidate()


class TinyLab(Lab):
    title = "Tiny lab"
    knobs = (
        offer(Blobs, "samples"),
        offer(Blobs, "gap", default=2.0),
        offer(Blobs, "learning_rate"),
        offer(Blobs, "epochs"),
        LabKnob(name="delay", meaning="pause after a step in ms", default=0.0, low=0, unit="ms", slider=(0, 50, 1)),
        LabKnob(
            name="trouble", meaning="what goes wrong", default="nothing", choices=("nothing", "error", "divergence")
        ),
    )
    stories = (
        Story("Far apart", {"gap": 4.0}, "The accuracy reaches 100 %."),
        Story("On top of each other", {"gap": 0.0, "epochs": 60}, "The accuracy stays near 50 %."),
    )

    def start(self, values: dict[str, Any]) -> Iterator[Snapshot]:
        return self._run(given(Blobs, values), values)

    def _run(self, blobs: Blobs, values: dict[str, Any]) -> Iterator[Snapshot]:
        for snapshot in train(blobs, seed=values["seed"], seconds=values["delay"] / 1000):
            if values["trouble"] == "error" and snapshot.step == 5:
                raise OSError("the disk is on fire")
            if values["trouble"] == "divergence" and snapshot.step >= 5:
                snapshot.diverged[[1, 3]] = True
            yield snapshot

    def make_picture(self, values: dict[str, Any]) -> TinyPicture:
        return TinyPicture(values, scale=self.scale)

    def caption(self, record: Snapshot) -> str:
        return (
            f"Step {record.step}: accuracy {100 * record['accuracy'].mean():.0f} %, loss {record['loss'].mean():.2f}."
        )

    def code(self, values: dict[str, Any]) -> str:
        return f"train({given(Blobs, values).code()}, seed={values['seed']})"
