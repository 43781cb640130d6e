"""The settings of a descent on one of gated2019's losses, checked before it starts, and recipes that work."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Self

from pydantic import model_validator

from moe_lab.core.config import Config, Precision, RunConfig, knob, require
from moe_lab.core.memory import Need
from moe_lab.recovery.data import MixtureTask
from moe_lab.recovery.landscape.losses import Weights

SAMPLED_AT_ONCE = 2**17
"""Numbers of inputs that are sampled at a time for each trial."""


class L4Loss(Config):
    """Regressors by gradient descent on L4 (eq. 7); the defaults are the recipe for fresh batches of 1024.

    delta is the weight that matters. Outside the span of the true regressors it alone acts, by exp(-delta * rate *
    step), so that a small delta stalls even without sampling noise (.01: all of 20 trials). Where regressors are not
    orthonormal, it also biases the minimum (random ones, d=10: median error .03 in population; delta=.1, rate=.05 and
    4000 steps: under .0002 in 20 of 20).

    The learning rate is twice the .01 that the weights came with, at which 3 of 40 starts were still on a saddle after
    1200 steps; at .02 none of 120. Labels to the fourth power have heavy tails, against which gradients are clipped.
    ReLU, whose c is a fiftieth of the identity's, needs batches of 8192 (largest of 5 errors .0019; 1024: over .79).

    Raises:
      ConfigError: a value is out of bounds.
    """

    mu: float = knob(
        0.01, symbol="mu", meaning="reward of a row's own fourth moment", ge=0, le=1e3, slider=(0.0, 0.2, 0.01)
    )
    penalty: float = knob(
        1.0, symbol="lambda", meaning="penalty of a second moment that is not 1", ge=0, le=1e3, slider=(0.0, 8.0, 0.5)
    )
    ridge: float = knob(
        1.0, symbol="delta", meaning="pull of all numbers towards 0", ge=0, le=1e3, slider=(0.0, 4.0, 0.25)
    )
    rate: float = knob(0.02, symbol="eta", meaning="learning rate", gt=0, le=1e3, slider=(0.001, 0.05, 0.001))
    clip: float | None = knob(2.0, meaning="longest gradient; longer ones are shortened (none: never)", gt=0)
    cosine: bool = knob(True, meaning="whether the learning rate falls to 0 along a cosine")
    steps: int = knob(1200, meaning="steps", ge=1, le=10**7, slider=(100, 3000, 100))
    population: bool = knob(False, meaning="descend on eq. 8 itself, without samples and without their noise")

    name: ClassVar[str] = "L4"

    @property
    def weights(self) -> Weights:
        return Weights(self.mu, self.penalty, self.ridge)


class L2Loss(Config):
    """Regressors and gates at once by gradient descent on the squared error, the loss that gets stuck (section 3.1).

    Raises:
      ConfigError: a value is out of bounds.
    """

    rate: float = knob(0.1, symbol="eta", meaning="learning rate", gt=0, le=1e3, slider=(0.01, 0.5, 0.01))
    clip: float | None = knob(None, meaning="longest gradient; longer ones are shortened (none: never)", gt=0)
    cosine: bool = knob(False, meaning="whether the learning rate falls to 0 along a cosine")
    steps: int = knob(1200, meaning="steps", ge=1, le=10**7, slider=(100, 3000, 100))

    name: ClassVar[str] = "l2"


class LogLoss(Config):
    """Gates by projected gradient descent on L_log (eq. 9), regressors being fixed.

    Raises:
      ConfigError: a value is out of bounds.
    """

    regressors: L4Loss | L2Loss | None = knob(None, meaning="descent that finds the regressors first (none: true ones)")
    radius: float = knob(1.0, symbol="R", meaning="gates stay in the ball of this radius", gt=0, le=1e3)
    rate: float = knob(1.0, symbol="alpha", meaning="learning rate", gt=0, le=1e3, slider=(0.1, 4.0, 0.1))
    clip: float | None = knob(None, meaning="longest gradient; longer ones are shortened (none: never)", gt=0)
    cosine: bool = knob(False, meaning="whether the learning rate falls to 0 along a cosine")
    steps: int = knob(60, meaning="steps", ge=1, le=10**7, slider=(10, 200, 10))

    name: ClassVar[str] = "L_log"


Descent = L4Loss | L2Loss | LogLoss


class LossRun(RunConfig):
    """One loss on one task.

    Raises:
      ConfigError: a value is out of bounds, a batch is larger than the samples, or L4 is used with inputs or noise that
        it is not made for.
    """

    model: Descent
    task: MixtureTask
    batch: int = knob(1024, meaning="samples in a batch", ge=1, le=10**7, slider=(64, 4096, 64))
    samples: int | None = knob(None, symbol="n", meaning="samples that batches come from (none: fresh)", ge=1, le=10**8)
    device: str = knob("cpu", meaning="where to compute: auto, cpu, cuda or cuda:N")
    precision: Precision = knob("float64", meaning="float32 or float64")
    planes: bool = knob(False, meaning="whether to measure where a descent is on a plane through minima, for pictures")

    function: ClassVar[str] = "descend"
    operations: ClassVar[tuple[str, ...]] = ("linalg.eigh", "linalg.pinv")

    @property
    def numbers_per_step(self) -> float:
        return float(self.trials * self._numbers_per_trial)

    @property
    def _numbers_per_trial(self) -> int:
        """The numbers that a batch of one trial computes."""
        return self.batch * (8 * self.task.experts + self.task.dimension)

    @property
    def memory(self) -> Need:
        """The memory needed on an accelerator: the samples of a block or of the set, twice, and one step."""
        d = self.task.dimension
        samples = self.samples or max(self.batch, SAMPLED_AT_ONCE // d)
        return Need(per_trial=self.number_bytes * (2 * samples * (d + 1) + self._numbers_per_trial))

    @model_validator(mode="after")
    def _fits(self) -> Self:
        rule = "batch must be at most samples (n)"
        require(self.samples is None or self.batch <= self.samples, rule, batch=self.batch, n=self.samples)
        rule = "planes are known for L4 and l2"
        require(not self.planes or not isinstance(self.model, LogLoss), rule, model=self.model.name)
        if any(isinstance(stage, L4Loss) for stage in self.stages):
            rule = "L4 needs inputs from N(0, I), for which its Hermite projections are made"
            require(self.task.first_share is None, rule, first_share=self.task.first_share)
        return self

    @property
    def block(self) -> tuple[int, int]:
        """Numbers that are sampled at a time for each trial, if they are at least those of a batch, and the latter."""
        return SAMPLED_AT_ONCE, self.batch * self.task.dimension

    @property
    def measure(self) -> str:
        """Every Snapshot is evaluated."""
        return "every"

    @property
    def last_step(self) -> int:
        """The step after which the last stage ends."""
        return sum(stage.steps for stage in self.stages)

    @property
    def stages(self) -> list[Descent]:
        """The descents, one after the other."""
        first = self.model.regressors if isinstance(self.model, LogLoss) else None
        return [self.model] if first is None else [first, self.model]


class Recipe(NamedTuple):
    """A descent on L4 with the batches that it is tuned for.

    Attributes:
      model: the loss and its steps.
      batch, samples: of `LossRun`.
    """

    model: L4Loss
    batch: int
    samples: int | None


RECIPES = {
    "fresh": Recipe(L4Loss(), 1024, None),
    "fixed": Recipe(L4Loss(**{"penalty": 4.0, "ridge": 3.0, "rate": 0.003, "clip": 5.0, "steps": 2500}), 1024, 65536),
    "small": Recipe(L4Loss(**{"ridge": 0.5, "rate": 0.001, "steps": 12000}), 128, None),
}
"""Fresh batches; a fixed set of samples; small batches (figure 4, d=5)."""

PAPER_TASK = MixtureTask(**{"noise": 0.05, "gating": "orthogonal", "regressors": "orthonormal"})
"""Section 4: d=10, k=2, sigma=.05, a_i = e_i and w_1 = e_3, up to a rotation, which changes nothing: inputs, starts and
descents look alike from everywhere."""
