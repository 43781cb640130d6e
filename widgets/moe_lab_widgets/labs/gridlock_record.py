"""What a record of the gridlock Lab holds: where both methods are, what they have found, and which trials are stuck.

Shapes: R records, T trials, k experts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from moe_lab.drawing.marks import picked
from moe_lab.recovery.gridlock.verdicts import FOUND, WINDOW, converged
from moe_lab_widgets.drawing.mark_record import MarkRecord, MarkValues, once
from moe_lab_widgets.drawing.mark_words import trial_on_show
from moe_lab_widgets.engine.knobs import on_gpu, record_count, time_limit

SPECTRAL, JOINT, BEST = "spectral", "joint", "best"
METHODS = (SPECTRAL, JOINT)
"""The runs that are compared; the third is EM from the true parameters, which no method can beat on these samples."""
POWER_ITERATIONS = 10
"""Per regressor: power iterations converge quadratically, so that 30 find the same to three digits."""
POWER_EVERY = 2
"""Steps of the spectral method per record: several for each regressor."""
GATE_ITERATIONS, EVERYTHING_ITERATIONS = 5, 40
"""EM after the power iterations: of the gates alone, then of everything."""
BEST_ITERATIONS = 12
"""EM from the true parameters."""
JOINT_RECORDS, SLOWEST_PIECE = 80, 0.045
"""Approximate records of joint EM, and the seconds that one may take, so that a slider is answered soon."""

# ---- of the values alone ----


def power(values: MarkValues) -> Tensor:
    """Returns the iterations of the power method in all, after which the spectral method's EM begins."""
    return values.number("experts") * POWER_ITERATIONS


def longest(values: Mapping[str, Any]) -> int:
    """Returns the steps of the method that takes more."""
    spectral = values["experts"] * POWER_ITERATIONS + GATE_ITERATIONS + EVERYTHING_ITERATIONS
    return int(max(values["iterations"], spectral))


def every(values: Mapping[str, Any], name: str) -> int:
    """Returns the steps of a run per record. Depends on the values alone."""
    if name == SPECTRAL:
        return POWER_EVERY
    few = round(values["iterations"] / record_count(JOINT_RECORDS, values))
    few = few if on_gpu(values) else min(few, int(time_limit(SLOWEST_PIECE, values) / seconds(values)))
    return max(one for one in range(1, max(few, 1) + 1) if WINDOW % one == 0)  # "stuck" compares over WINDOW


def seconds(values: Mapping[str, Any]) -> float:
    """Returns about how long one EM iteration of all trials takes on one CPU thread (measured, within a third)."""
    k, d, rows = values["experts"], values["dimension"], values["trials"] * values["samples"]
    return float(rows * (k * (k + 1) / 2 * d * (d + 1) / 2 * 1.7e-10 + k * 3e-8))


# ---- where a method is ----


def last_step(values: MarkValues, name: str) -> Tensor:
    """Returns the step after which a method ends; its last values stay while the other goes on."""
    em = values.number("iterations")
    return power(values) + GATE_ITERATIONS + EVERYTHING_ITERATIONS if name == SPECTRAL else em


def step(now: MarkRecord, name: str) -> Float[Tensor, ""]:
    """Returns the steps that a method has done; minus infinity before its first record."""
    return now.curve("error", name)[0].nan_to_num(-torch.inf).amax().minimum(last_step(now.values, name))


def seeking(now: MarkRecord) -> Bool[Tensor, ""]:
    """Whether the spectral method is still in its power iterations."""
    return step(now, SPECTRAL) <= power(now.values)


def iteration(now: MarkRecord, name: str) -> Float[Tensor, ""]:
    """Returns the iterations of EM that a method has done; negative ones are power iterations still to come."""
    return step(now, name) - power(now.values) if name == SPECTRAL else step(now, name)


@once
def em_errors(now: MarkRecord, name: str) -> tuple[Float[Tensor, " R"], Float[Tensor, "R T"]]:
    """Returns the iterations of EM and the errors after them; NaN before EM, and for records to come."""
    steps, errors = now.curve("error", name)
    iterations = steps - power(now.values) if name == SPECTRAL else steps
    begun = (iterations >= 0) & (steps <= last_step(now.values, name))
    return torch.where(begun, iterations, torch.nan), torch.where(begun[:, None], errors, torch.nan)


# ---- what it has found, and whether it is stuck ----


def cosines(now: MarkRecord, name: str) -> Float[Tensor, "k k"]:
    """Returns |cos| of each estimate with each true regressor, in matched order, in the trial on show; 0 before."""
    return picked(now.last("cosines", name), trial_on_show(now.values)).nan_to_num().T


def gate_cosines(now: MarkRecord, name: str) -> Float[Tensor, " gates"]:
    """Returns |cos| of each gate with the true one, in the trial on show; 0 before they are sought."""
    found = picked(now.last("gate_cosines", name), trial_on_show(now.values)).nan_to_num()
    return torch.where(seeking(now), 0.0, found) if name == SPECTRAL else found


def found(now: MarkRecord, name: str) -> Bool[Tensor, "T k"]:
    """Returns which true regressors have an estimate of |cos| >= `FOUND`."""
    return now.last("cosines", name).diagonal(dim1=1, dim2=2) >= FOUND  # NaN is not found


def found_in_trial(now: MarkRecord, name: str) -> Bool[Tensor, " k"]:
    return picked(found(now, name), trial_on_show(now.values)) > 0


def whole(now: MarkRecord, name: str) -> Bool[Tensor, " T"]:
    """Returns whether all regressors are found: their fit is at least `FOUND`."""
    return now.last("regressor_fit", name) >= FOUND


def verdicts(now: MarkRecord, name: str) -> tuple[Bool[Tensor, " T"], Bool[Tensor, " T"]]:
    """Returns which trials are stuck, where EM has converged and a regressor is missing, and which are still falling.

    EM has converged (`verdicts.converged`) at the earliest after `WINDOW` iterations.
    """
    iterations, errors = em_errors(now, name)
    last, here = iterations.nan_to_num(-torch.inf).amax(), now.last("error", name)
    place = ((iterations <= last - WINDOW) * torch.arange(1, len(iterations) + 1)).amax()
    known = (last >= 0) & here.isfinite() & ~whole(now, name)
    ended = (place > 0) & converged(picked(errors, place - 1), here)
    return ended & known, ~ended & known
