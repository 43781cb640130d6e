"""The methods and tasks of each table and figure of gridlock2019, and the sweep that computes its Dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from moe_lab.core import figure
from moe_lab.core.config import require
from moe_lab.core.grid import Point, checked_axes, points_of
from moe_lab.core.snapshots import Measure
from moe_lab.core.trials import device_labels
from moe_lab.recovery.data import MixtureTask
from moe_lab.recovery.gridlock.run import BY_MOMENTS, JointEM, Method, MixtureRun, Spectral

if TYPE_CHECKING:
    import xarray

METHODS = (
    "orth-als",
    "spectral",
    "spectral-gradient",
    *BY_MOMENTS,
    "spectral+em",
    "joint-em",
    "joint-em-gradient",
    "em-from-truth",
)
"""What the tables and figures compare, by name; `method_of` makes each."""
FROM_TRUTH = "em-from-truth"
_OF_TASK = ("experts", "gating", "first_share", "activation", "noise")
MEANINGS = {
    "k": "k, experts",
    "gating": "gates orthogonal to all regressors, or random",
    "first_share": "p, share of the inputs' first Gaussian",
    "activation": "g, activation",
    "noise": "sigma, standard deviation of the noise",
    "samples": "n, samples",
    "regressors": "regressors that the gates are found with: estimated, or the true ones",
    "algorithm": "algorithm",
}


def method_of(name: str, iterations: int | None = None) -> Method:
    """Returns the method with a name of `METHODS`.

    - "orth-als": Orth-ALS on the full T3 of plain P3(y), then EM of the gates: algorithms 1 and 2 as they are printed.
    - "spectral": power iterations on the whitened T3 of 4 tanh(P3(y)/4), then EM of the gates.
    - "spectral+em": the same, then EM of regressors and gates together.
    - "spectral-gradient": as "spectral", the gates by gradient EM with step 4.
    - "moments": as "spectral", the gate of two experts by the moment of theorem 3; "centred-moments" with half of its
      variance (`moments.gate_by_moments`).
    - "joint-em": EM of everything from random parameters, with a Newton M-step.
    - "joint-em-gradient": the same with one gradient step as M-step, and gates kept within R = 1.
    - "em-from-truth": joint EM from the true parameters, to show what the samples allow.

    Args:
      iterations: of EM in all, from wherever it starts; None for the method's own: 5 of the gates, 10 more of
        everything, 250 of joint EM.

    Raises:
      ValueError: there is no such method.
    """
    require(name in METHODS, f"a method must be one of {', '.join(METHODS)}", method=name)
    joint: dict[str, Any] = {} if iterations is None else {"iterations": iterations}
    if name == "joint-em-gradient":
        return JointEM(**joint, gate_step="gradient", gate_rate=1.0, radius=1.0)
    if name in ("joint-em", FROM_TRUTH):
        return JointEM(**joint, start="truth" if name == FROM_TRUTH else "random")
    gates = Spectral().gate_iterations
    if name == "spectral+em":
        after = {} if iterations is None else {"joint_iterations": max(0, iterations - gates)}
        return Spectral(gate_iterations=gates if iterations is None else min(gates, iterations), **after)
    kind: dict[str, Any] = {"orth-als": {"decomposition": "orth-als", "robust": False}}.get(name, {})
    kind |= {"gate_step": "gradient"} if name == "spectral-gradient" else {}
    kind |= {"gate_step": name} if name in BY_MOMENTS else {}
    return Spectral(gate_iterations=gates if iterations is None else iterations, joint_iterations=0, **kind)


def run_of(
    point: Point,
    *,
    trials: int,
    seed: int,
    task: Mapping[str, Any],
    settings: Mapping[str, Any],
    iterations: Mapping[str, int] | int | None = None,
) -> MixtureRun:
    """Returns the MixtureRun of a grid point such as {"k": 3, "algorithm": "joint-em"}.

    Args:
      task: parameters of `MixtureTask` that the point does not name.
      settings: parameters of `MixtureRun` that the point does not name, such as samples.
      iterations: of EM, for all methods or by the method's name; see `method_of`.

    Raises:
      ValueError: a wrong value or combination.
    """
    count = iterations.get(point["algorithm"]) if isinstance(iterations, Mapping) else iterations
    named = {"experts" if name == "k" else name: value for name, value in point.items()}
    of_task = {name: value for name, value in named.items() if name in _OF_TASK}
    sized = {"samples": point["samples"]} if "samples" in point else {}
    return MixtureRun(
        model=method_of(point["algorithm"], count),
        task=MixtureTask(**{**task, **of_task}),
        trials=trials,
        seed=seed,
        **{**settings, **sized},
    )


@dataclass
class GridlockFigure(figure.Figure):
    """A table or figure of gridlock2019.

    Args:
      task: parameters of `MixtureTask` for all grid points.
      samples: n, where it is no axis.
      iterations: see `run_of`.

    """

    paper = "gridlock2019"
    task: Mapping[str, Any] = field(default_factory=dict)
    samples: int | None = None
    iterations: Mapping[str, int] | int | None = None
    settings: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        given = {name: value for name, value in self.given.items() if value is not None}
        self.settings = {"device": "auto", **({} if self.samples is None else {"samples": self.samples}), **given}

    def how(self) -> dict[str, Any]:
        """Returns the settings that all grid points share."""
        return {"task": dict(self.task), "settings": self.settings, "iterations": self.iterations}

    def fill(
        self,
        evaluate: Callable[..., Any],
        axes: Mapping[str, Sequence[Any]],
        measures: Mapping[str, Measure],
        coords: Mapping[str, Any] | None = None,
        **extra: Any,
    ) -> xarray.Dataset:
        """Checks every grid point, runs them all, and labels the results.

        Args:
          evaluate: for `moe_lab.core.sweep`: (points, trials=, seed=, task=, settings=, iterations=, **extra) ->
            values.
          axes: the values of each axis; the last is "algorithm".
          measures: what a grid point yields, with the axes after the trial.
          coords: labels of those axes.
          extra: more arguments of `evaluate`.

        Returns:
          The measures over (axes..., trial, ...).
        """
        attrs = self.attrs_of(axes)
        evaluation = partial(evaluate, **self.how(), **extra)
        how: dict[str, Any] = {"measures": measures, "meanings": MEANINGS, "coords": coords}
        found = self.sweep(evaluation, checked_axes(axes), batch=1, **how)[list(measures)]
        found.attrs = attrs
        return found

    def attrs_of(self, axes: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """Checks every grid point, and returns the attrs of the results without their call; see `fill`."""
        points = points_of(checked_axes(axes))
        runs = [run_of(point, trials=self.trials, seed=self.seed, **self.how()) for point in points]
        device = device_labels(runs)  # refuses one that is not there before any work
        records = [{"point": point, **run.record()} for point, run in zip(points, runs, strict=True)]
        return self.about(records, device)
