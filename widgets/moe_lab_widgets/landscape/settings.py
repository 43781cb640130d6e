"""The knobs of the landscape Lab, and the two descents that their values describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moe_lab.recovery import MixtureTask
from moe_lab.recovery.landscape.planes import lengths
from moe_lab.recovery.landscape.run import PAPER_TASK, L2Loss, L4Loss, LossRun
from moe_lab_widgets.engine.knobs import (
    ANOTHER_TRIAL,
    MORE_TRIALS,
    LabKnob,
    arguments,
    fewer,
    given,
    longest,
    offer,
    on_gpu,
    placed,
)

# ---- a live run takes 4 to 5 seconds of one CPU core, and one record .05 ----

RECORDS = 80
"""Approximate number of records of a run: 5 to 6 seconds at 15 records per second."""
SLOWEST_PIECE = 0.045
"""Seconds. Expensive steps are grouped into smaller records, so that a slider is answered soon."""

# Short words, so that three sliders stand side by side, and ranges in which a run stays live.
KNOBS = (
    offer(L4Loss, "mu", main=True, symbol="μ", meaning="reward of 4th moments", slider=(0.0, 0.2, 0.01),
          effect="Draws each row more strongly to a single regressor; λ must stay well above it."),
    offer(L4Loss, "penalty", main=True, symbol="λ", meaning="penalty of 2nd moments", slider=(0.0, 8.0, 0.5),
          effect="Holds each row more strongly to a second moment of 1."),
    offer(L4Loss, "ridge", main=True, symbol="δ", meaning="pull towards 0", slider=(0.0, 4.0, 0.05),
          effect="Clears sooner what has nothing to do with a regressor. Too large, it makes all rows vanish."),
    offer(L4Loss, "rate", main=True, symbol="η", meaning="learning rate of L₄", slider=(0.001, 0.1, 0.001),
          effect="Faster and less steady steps on L₄."),
    offer(MixtureTask, "experts", main=True, meaning="experts", slider=(2, 4, 1),
          effect="More regressors to find, each in fewer samples: λ may have to grow."),
    offer(MixtureTask, "noise", main=True, symbol="σ", meaning="noise on y", default=PAPER_TASK.noise,
          slider=(0.05, 1.0, 0.05),
          effect="More noise blurs the answers, and fourth powers most."),
    offer(L2Loss, "rate", name="l2_rate", symbol="η₂", meaning="learning rate of ℓ₂",
          effect="Faster and less steady steps on the squared error ℓ₂."),
    offer(LossRun, "batch", symbol="B", meaning="samples per batch", slider=(64, 2048, 64),
          effect="Steadier gradients, and slower steps."),
    offer(L4Loss, "steps", symbol="S", meaning="training steps", slider=(100, 3000, 100),
          effect="Gives both losses more time to come to rest."),
    offer(MixtureTask, "dimension", meaning="numbers per input", slider=(4, 20, 1),
          effect="More directions in which a start can be wrong."),
    offer(MixtureTask, "gating", symbol="w", meaning="gates", default=PAPER_TASK.gating,
          words={"orthogonal": "orthogonal to regressors"},
          effect="The theory asks for gates at right angles to all regressors; random ones are not."),
    offer(LossRun, "trials", symbol="T", meaning="trials", default=5, slider=(1, 8, 1), far=1000, effect=MORE_TRIALS),
    LabKnob(name="shown", meaning="trial on show", default=1, low=1, slider=(1, 8, 1), at_most="trials",
            view_only=True, effect=ANOTHER_TRIAL,
            applies="only with more than one trial"),
)  # fmt: skip


def task_of(values: Mapping[str, Any]) -> MixtureTask:
    """Returns the task that the values describe: gated2019's regressors are orthonormal."""
    return given(MixtureTask, {**values, "regressors": PAPER_TASK.regressors})


def models(values: Mapping[str, Any]) -> tuple[L4Loss, L2Loss]:
    """Returns the two losses."""
    return given(L4Loss, values), L2Loss(rate=values["l2_rate"], steps=values["steps"])


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of `descend` besides loss and task, the same for both, hence the same batches."""
    own = {name: values[name] for name in ("batch", "trials", "seed")}
    return own | {"record_every": record_every(values)} | placed(values)


def runs(values: Mapping[str, Any]) -> tuple[LossRun, LossRun]:
    """Returns the two descents that the values describe, checked.

    Raises:
      ValueError: a value or a combination breaks a rule; one of them is that L4 has a least value.
    """
    first, second = descents(values)
    lengths(task_of(values).parameters(first.trial_numbers, first.seed), models(values)[0].weights)
    return first, second


def descents(values: Mapping[str, Any]) -> tuple[LossRun, LossRun]:
    """Returns the two descents that the values describe, of which L4's may have no end.

    Raises:
      ConfigError: a value or a combination breaks a rule.
    """
    task = task_of(values)
    first, second = (LossRun(model=model, task=task, **settings(values)) for model in models(values))
    return first, second


def seconds_of_step(values: Mapping[str, Any]) -> float:
    """Returns about how long one step of both losses takes on one CPU thread (measured, within a half)."""
    k, d, rows = values["experts"], values["dimension"], values["trials"] * values["batch"]
    return float(6e-4 + rows * (d * 3.0e-8 + k * 1.2e-7))


def record_every(values: Mapping[str, Any]) -> int:
    """Returns the steps per record. Depends on the values alone."""
    few = round(values["steps"] / fewer(RECORDS, values))
    quick = int(longest(SLOWEST_PIECE, values) / seconds_of_step(values))
    return max(1, few if on_gpu(values) else min(few, quick))


def work(values: Mapping[str, Any]) -> float:
    """Returns the numbers that a step of either descent touches."""
    return max(run.numbers for run in descents(values))


def code(values: Mapping[str, Any]) -> str:
    """Returns Python that runs as it is pasted and computes the numbers of the Lab."""
    l4, l2 = models(values)
    return "\n".join(
        (
            "from moe_lab.plots import curves",
            "from moe_lab.recovery import MixtureTask",
            "from moe_lab.recovery.landscape.stuck import stuck_at",
            "from moe_lab.recovery.landscape.run import L2Loss, L4Loss",
            "from moe_lab.recovery.landscape.training import descend",
            "from moe_lab.training import collect",
            "",
            f"task = {task_of(values).code()}",
            f"settings = dict({arguments(settings(values))})",
            f"l4 = collect(descend({l4.code()}, task, **settings))",
            f"l2 = collect(descend({l2.code()}, task, **settings))",
            'for name, run in (("L4", l4), ("l2", l2)):',
            '    errors = run["regressor_error"].values',
            '    print(name, "regressor error", errors[-1], "stuck", stuck_at(errors)[0])',
            'curves({"L4": l4, "l2": l2}, "regressor_error")',
        )
    )
