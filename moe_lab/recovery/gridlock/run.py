"""The methods that recover a mixture, and the settings of a recovery, checked before it starts."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from moe_lab.core.config import Config, Precision, RunConfig, knob, require
from moe_lab.core.memory import Need
from moe_lab.recovery.data import MixtureTask
from moe_lab.recovery.em import MOST_PAIRS

Decomposition = Literal["power", "orth-als"]
GateStep = Literal["newton", "gradient"]
Gates = Literal["newton", "gradient", "moments", "centred-moments"]
Phase = Literal["regressors", "gates", "everything"]
BY_MOMENTS = ("moments", "centred-moments")
Third = Literal["P3(y)", "y"]
Start = Literal["random", "truth"]


class Spectral(Config):
    """Regressors from moments, then gates by EM, then both (gridlock2019, algorithms 1 and 2).

    Raises:
      ConfigError: a value is out of bounds.
    """

    decomposition: Decomposition = knob(
        "power",
        meaning="power iterations on T3 whitened by T2, or Orth-ALS on the full T3 (the authors')",
        choices=("power", "orth-als"),
    )
    robust: bool = knob(True, meaning="cut the tails of P3(y) by 4 tanh(P3/4); the paper's moments are plain")
    printed: bool = knob(False, meaning="use P3 and P2 as the paper prints them (wrong for ReLU, see `printed`)")
    third: Third = knob(
        "P3(y)",
        meaning="what T3 is the moment of: P3(y), or y itself, in which the gate hides the regressors (eq. 3)",
        choices=("P3(y)", "y"),
    )
    restarts: int | None = knob(None, meaning="starts of the decomposition (none: 20, 60 from k = 6)", ge=1, le=10**4)
    power_iterations: int = knob(30, meaning="iterations for each component", ge=1, le=10**4)
    gate_step: Gates = knob(
        "newton",
        meaning="M-step of the gates; or, for k=2, their direction by moments, once (theorem 3), at length 1",
        choices=("newton", "gradient", *BY_MOMENTS),
    )
    gate_rate: float = knob(4.0, meaning="step of gradient EM", gt=0, le=1e3)
    gate_iterations: int = knob(5, meaning="EM iterations for the gates alone", ge=0, le=10**5, slider=(0, 20, 1))
    joint_iterations: int = knob(10, meaning="EM iterations for everything", ge=0, le=10**5, slider=(0, 100, 5))

    name: ClassVar[str] = "spectral"

    def starts(self, experts: int) -> int:
        """Returns the number of starts of a decomposition into some components."""
        if self.restarts is not None:
            return self.restarts
        return 20 if experts < 6 else 60


class JointEM(Config):
    """EM of regressors and gates at once, from random ones or from the true ones (Jordan and Jacobs, 1994).

    Raises:
      ConfigError: a value is out of bounds.
    """

    iterations: int = knob(250, meaning="EM iterations", ge=1, le=10**6, slider=(10, 400, 10))
    start: Start = knob(
        "random",
        meaning="random parameters, or the true ones, whose end no method can beat",
        choices=("random", "truth"),
    )
    gate_step: GateStep = knob("newton", meaning="M-step of the gates", choices=("newton", "gradient"))
    gate_rate: float = knob(4.0, meaning="step of gradient EM", gt=0, le=1e3)
    radius: float | None = knob(None, symbol="R", meaning="gates stay in the ball of this radius (none: free)", gt=0)

    name: ClassVar[str] = "joint-em"


Method = Spectral | JointEM


class MixtureRun(RunConfig):
    """One method on one task.

    Raises:
      ConfigError: a value is out of bounds, or there are fewer samples than numbers to find.
    """

    model: Method
    task: MixtureTask
    samples: int = knob(2000, symbol="n", meaning="samples", ge=1, le=10**7, slider=(500, 20000, 500))
    trials: int = knob(10, meaning="independent trials", ge=1, le=10**6, slider=(1, 20, 1))
    record_every: int = knob(1, meaning="iterations from one Snapshot to the next", ge=1, le=10**9)
    device: str = knob("auto", meaning="where to compute: auto, cpu, cuda or cuda:N")
    precision: Precision = knob("float64", meaning="float32 or float64")

    operations: ClassVar[tuple[str, ...]] = ("linalg.eigh", "linalg.solve_ex", "linalg.lstsq", "linalg.qr")

    @property
    def measure(self) -> str:
        """Every Snapshot is evaluated."""
        return "every"

    @property
    def stages(self) -> list[tuple[Phase, int]]:
        """What is sought, and for how many steps, one after the other."""
        model = self.model
        if isinstance(model, JointEM):
            return [("everything", model.iterations)]
        regressors = self.task.experts * model.power_iterations if model.decomposition == "power" else 1
        gates = min(1, model.gate_iterations) if model.gate_step in BY_MOMENTS else model.gate_iterations
        every: list[tuple[Phase, int]] = [
            ("regressors", regressors), ("gates", gates), ("everything", model.joint_iterations)
        ]  # fmt: skip
        return [(phase, steps) for phase, steps in every if steps]

    @property
    def last_step(self) -> int:
        """The step after which the last stage ends."""
        return sum(steps for _, steps in self.stages)

    @property
    def numbers_per_step(self) -> float:
        return float(self.trials * self._numbers_per_trial)

    @property
    def _numbers_per_trial(self) -> int:
        """Samples of one trial, the products of their numbers, and an iteration of EM, which passes over them all."""
        k, d = self.task.experts, self.task.dimension
        pairs = d * (d + 1) // 2
        stored = pairs if self.trials * self.samples * pairs <= MOST_PAIRS else 0
        return self.samples * (2 * d + 2 + stored + 8 * k + k * (k - 1) // 2) + 3 * ((k - 1) * d) ** 2

    @property
    def memory(self) -> Need:
        """The memory needed on an accelerator."""
        return Need(per_trial=self.number_bytes * self._numbers_per_trial)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        rule = "samples (n) must be at least dimension (d) times experts (k), the numbers to find"
        need = self.task.dimension * self.task.experts
        require(self.samples >= need, rule, n=self.samples, d=self.task.dimension, k=self.task.experts)
        moments = self.model.gate_step in BY_MOMENTS
        rule = "gates by moments (gate_step) need experts (k) = 2"
        require(not moments or self.task.experts == 2, rule, gate_step=self.model.gate_step, k=self.task.experts)
        return self
