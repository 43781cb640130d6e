"""Figures 3 and 7 of pruning2024, and on the same layer what figures 4 to 6, 9 and 10 do on vision models.

Each is one call that returns a labelled Dataset; `plots` draws it. A Dataset says in `.attrs["call"]` how to make it
again. Trainings follow `recipes.RECIPES`; any parameter of `TokenMoE`, `TokenTask` or `TokenRun` can be given too,
by its name: `criteria(experts=40, zipf=.5, steps=150)`. A start of one's own goes in the start's place:
`criteria(start=PlantedStart(others_norm=8.0))`.

There is no store and there are no jobs: a figure is a single training of seconds, from which everything else is
computed in one go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float
from torch import Tensor

from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.figure import reproducible
from moe_lab.core.grid import checked_axes
from moe_lab.core.origins import as_tuple
from moe_lab.core.scalars import python_of
from moe_lab.core.trials import device_labels
from moe_lab.pruning import criteria as rules
from moe_lab.pruning.checkpoints import FineTuned
from moe_lab.pruning.costs import efficiency
from moe_lab.pruning.initialization import BranchStart, PlantedStart, RandomStart, Start, important_experts
from moe_lab.pruning.model import Weights
from moe_lab.pruning.published import published
from moe_lab.pruning.recipes import RECIPES, RHO, TokenFigure, array, check_device, labels, trained, variable
from moe_lab.pruning.run import TokenRun
from moe_lab.pruning.select import Kept, pruned_counts

__all__ = [
    "CRITERIA",
    "CURVE",
    "RECIPES",
    "BranchStart",
    "PlantedStart",
    "RandomStart",
    "criteria",
    "efficiency",
    "figure3",
    "figure7",
    "published",
]

CRITERIA = (
    "router-norm-change",
    "random",
    "importance-score",
    "router-magnitude",
    "neuron-magnitude",
    "neuron-magnitude-change",
)
"""The criteria that the paper compares (section 5.2.1)."""
CURVE = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Values of rho for a curve: `criteria(rho=CURVE)`."""
_MOVING = ("router-norm-change", "router-difference-norm")


@reproducible()
@checked
def criteria(
    start: str | Start = "planted",
    routing: str = "expert-choice",
    rho: float | Sequence[float] = (0.3, 0.5, 0.9),
    trials: int = 10,
    seed: int = 0,
    criteria: str | rules.Criterion | Sequence[str | rules.Criterion] | None = None,
    fine_tuning_steps: int = 60,
    **more: Any,
) -> xr.Dataset:
    """Figures 4a, 5 and 9 in kind: accuracy after pruning by each criterion, without and with fine-tuning after it.

    A layer is fine-tuned once; all criteria prune the same layer. Read the starts' docstrings before the result: with
    "planted" the contrasts are chosen, with "random" the change of a router's norm is its norm, and with "pretrained"
    all specialists of the task are good. From "random" some trials learn a single class, and pruning cannot help them:
    look at unpruned_accuracy.

    Args:
      start: "planted", "random", "pretrained" (branches trained apart), or such a start with other parameters.
      routing: "expert-choice" or "token-choice".
      rho: the share of each group of experts that goes, one value or several, in [0, 1).
      trials: independent trainings.
      seed: of all streams.
      criteria: names from `pruning.criteria.CRITERIA`, or functions of your own that return a score for each expert
        (see `moe_lab.core.saliency`), one or several; `CRITERIA` when None.
      fine_tuning_steps: T' after pruning, on fresh samples; 0 for none.
      more: other parameters of `TokenMoE`, `TokenTask` and `TokenRun`.

    Returns:
      test_accuracy(criterion, rho, fine_tuned, trial), where fine_tuned is False or True (only False without
      fine-tuning steps); unpruned_accuracy(trial); kept(criterion, rho, trial, expert); norm_change(trial, expert);
      and experts_kept(rho), parameters(rho) and remaining_share(rho), the share of parameters that the smaller layer
      still has. A planted start also has important(trial, expert). Accuracies of diverged trials are NaN.

    Raises:
      UndefinedCriterionError: the change of routers is asked for although no router moves (l=1 or eta_r=0), or token
        counts where experts choose. Name the other criteria, and the rest of the figure can be had.
      ValueError: any other wrong value, before anything trains.
    """
    several = as_tuple(CRITERIA if criteria is None else criteria)
    chosen = {rules.name_of(one): one for one in several}
    names = tuple(rules.name_of(one) for one in several)
    axes = checked_axes({"criterion": names, "rho": [float(python_of(share)) for share in np.atleast_1d(rho)]})
    figure = TokenFigure("figure 5", trials, seed, more)
    run = figure.run(start, routing)
    _check(run, axes["criterion"], axes["rho"], fine_tuning_steps)
    tuned, measured = trained(run)
    data = _pruned(tuned, chosen, axes, fine_tuning_steps).assign_coords(labels(run))
    data["unpruned_accuracy"] = variable(("trial",), measured["test_accuracy"], "the same of the unpruned layer")
    meaning = "Delta_s, change of the router's length in fine-tuning"
    data["norm_change"] = variable(("trial", "expert"), measured["norm_change"], meaning)
    if isinstance(run.start, PlantedStart):
        planted = important_experts(run.start, run.model.experts, run.trial_numbers, run.seed)
        data["important"] = variable(("trial", "expert"), planted, "experts that were planted as important")
    about = figure.about([run.record()], device_labels([run]), settled={"rho": axes["rho"]})
    data.attrs = {**about, "fine_tuning_steps": fine_tuning_steps}
    return data


@reproducible()
@checked
def figure3(trials: int = 8, seed: int = 0, trial: int | None = None, **more: Any) -> xr.Dataset:
    """Figure 3: routers and neurons after training from tiny random weights, for the experts that vote +.

    A few routers of each group grow large: these point at the group's pattern o, as do their experts' neurons; nothing
    else does. In some trials a class has no such expert: what the theory assumes is then not given, and the accuracy
    may stay near chance.

    Args:
      trials: independent trainings; the norms of all of them are returned.
      seed: of all streams.
      trial: the one whose components are returned; when None, the first in which both groups have a large router, or
        the very first if there is none.
      more: other parameters of `TokenMoE`, `TokenTask` and `TokenRun`.

    Returns:
      router_norm, norm_change, proficiency and large over (trial, expert), the last one Delta > 1.5 log l (lemma 4.1);
      along their group's own pattern, router_own, router_share (of the squared norm) and neurons_own (the share of
      neurons whose component is above 1), over (trial, expert); test_accuracy(trial) and violated(trial), whether a
      group has no large router (False where diverged). Of the trial `shown_trial`, router_component(expert, pattern)
      and neuron_component(expert, neuron, pattern), the patterns o1 and o2 first; `shown` holds, over role, the group's
      experts with the largest ("large") and smallest ("small") router.

    Raises:
      ValueError: a wrong value, before anything trains.
    """
    return _routers("figure 3", "+", trials, seed, trial, more)


@reproducible()
@checked
def figure7(trials: int = 8, seed: int = 0, trial: int | None = None, **more: Any) -> xr.Dataset:
    """Figure 7: as `figure3`, with the two experts shown from those that vote -."""
    return _routers("figure 7", "-", trials, seed, trial, more)


# --- pieces ----------------------------------------------------------------------------------------------------------


def _routers(place: str, group: str, trials: int, seed: int, trial: int | None, more: Mapping[str, Any]) -> xr.Dataset:
    figure = TokenFigure(place, trials, seed, more)
    run = figure.run("random", "expert-choice")
    check_device(run)
    require(run.model.top > 1, "top (l) must be at least 2, or no router moves", l=run.model.top)
    rule = "trial must be one of those that are trained"
    require(trial is None or trial in run.trial_numbers, rule, trial=trial, trials=run.trial_numbers)
    tuned, measured = trained(run)
    coords = labels(run)
    large = measured["norm_change"] > 1.5 * np.log(run.model.top)
    plus = coords["group"][1] == "+"
    both = large[:, plus].any(1) & large[:, ~plus].any(1)
    violated = ~both & np.isfinite(measured["test_accuracy"])
    number = int(both.argmax()) if trial is None else run.trial_numbers.index(trial)
    task = run.task
    order = [*task.specific, *task.irrelevant]
    mine = np.flatnonzero(coords["group"][1] == group)
    norms = np.nan_to_num(measured["router_norm"][number, mine])
    own = np.where(plus, task.specific[0], task.specific[1])  # each expert's pattern
    routers = array(tuned.after.routers)
    router_own = np.take_along_axis(routers, own[None, :, None], 2)[..., 0]
    with np.errstate(invalid="ignore"):  # a router of nothing, from l = 1
        router_share = router_own**2 / (routers**2).sum(2)
    neuron_own = np.take_along_axis(array(tuned.after.neurons), own[None, :, None, None], 2)[:, :, 0]
    neurons_own = np.where(np.isfinite(neuron_own).all(2), (neuron_own > 1).mean(2), np.nan)
    each = ("trial", "expert")
    data = xr.Dataset(
        {
            "router_norm": variable(each, measured["router_norm"], "norm of the router after training"),
            "norm_change": variable(each, measured["norm_change"], "Delta_s, change of the router's length"),
            "proficiency": variable(each, measured["proficiency"], "p of the group's own pattern after training"),
            "large": variable(each, large, "Delta_s above 1.5 log l, as lemma 4.1 has it of important experts"),
            "router_own": variable(each, router_own, "<w_s, o> after training, o the pattern of the expert's group"),
            "router_share": variable(each, router_share, "share of the router's squared norm along it"),
            "neurons_own": variable(each, neurons_own, "share of neurons with a component above 1 along it"),
            "test_accuracy": variable(("trial",), measured["test_accuracy"], "share of samples with the right sign"),
            "violated": variable(("trial",), violated, "a group has no large router"),
            "shown_trial": variable((), run.trial_numbers[number], "the trial whose components follow"),
            "router_component": variable(
                ("expert", "pattern"), array(tuned.after.routers[number])[:, order], "<w_s, q> after training"
            ),
            "neuron_component": variable(
                ("expert", "neuron", "pattern"),
                array(tuned.after.neurons[number].mT)[:, :, order],
                "<w_r, q> after training",
            ),
            "shown": variable(
                ("role",), mine[[norms.argmax(), norms.argmin()]] + 1, f"experts of the {group} group to be shown"
            ),
        },
        coords={
            **coords,
            "pattern": ["o1", "o2", *(f"q{rank}" for rank in range(1, task.patterns - 1))],
            "neuron": np.arange(1, run.model.neurons + 1),
            "role": ["large", "small"],
        },
    )
    data.attrs = figure.about([run.record()], device_labels([run]))
    return data


def _check(run: TokenRun, names: Sequence[str], shares: Sequence[float], steps: int) -> None:
    """Checks the arguments of `criteria`, except those of the run."""
    check_device(run)
    half = run.model.experts // 2
    for share in shares:
        pruned_counts(share, (half, half))
    require(isinstance(steps, int) and steps >= 0, "fine_tuning_steps must be a whole number >= 0", steps=steps)
    model = run.model
    still = [name for name in names if name in _MOVING] if model.top == 1 or model.router_learning_rate == 0 else []
    if still:
        raise rules.UndefinedCriterionError(
            "the change of routers is undefined where no router moves: with l=1 each gate is 1 whatever it says, "
            f"with eta_r=0 none learns; choose others: got criteria={still}, l={model.top}, "
            f"eta_r={model.router_learning_rate:g}"
        )
    if "token-count" in names and model.routing == "expert-choice":
        raise rules.UndefinedCriterionError(
            "token counts are undefined as a criterion where each expert chooses l tokens: choose others, or "
            f"routing='token-choice'; got routing={model.routing!r}"
        )


def _pruned(
    tuned: FineTuned,
    chosen: Mapping[str, str | rules.Criterion],
    axes: Mapping[str, Sequence[Any]],
    fine_tuning_steps: int,
) -> xr.Dataset:
    """Prunes the layer by each criterion to each rho, and measures it without and with fine-tuning afterwards."""
    kept = torch.stack([torch.stack([tuned.kept(one, share) for share in axes["rho"]]) for one in chosen.values()])
    steps = [0, fine_tuning_steps] if fine_tuning_steps else [0]
    accuracy = np.stack([_accuracies(tuned, kept, count) for count in steps], axis=2)
    smaller = [tuned.pruned(experts) for experts in kept[0]]
    dims = ("criterion", "rho", "fine_tuned", "trial")
    return xr.Dataset(
        {
            "test_accuracy": variable(dims, accuracy, "share of test samples with the right sign, of the pruned layer"),
            "kept": variable(("criterion", "rho", "trial", "expert"), array(kept), "experts that stay"),
            **_sizes(smaller, tuned.after),
        },
        coords={
            "criterion": axes["criterion"],
            "rho": ("rho", axes["rho"], {"long_name": RHO}),
            "fine_tuned": [count > 0 for count in steps],
        },
    )


def _accuracies(tuned: FineTuned, kept: Tensor, steps: int) -> Float[np.ndarray, "C R T"]:
    """Test accuracy for (C, R, T, k) kept experts; criteria that keep the same experts share one fine-tuning."""
    known: dict[bytes, np.ndarray] = {}

    def accuracy(experts: Kept) -> np.ndarray:
        key = experts.cpu().numpy().tobytes()
        if key not in known:
            known[key] = array(tuned.accuracy(experts, steps))
        return known[key]

    return np.array([[accuracy(experts) for experts in of_criterion] for of_criterion in kept])


def _sizes(smaller: Sequence[Weights], whole: Weights) -> dict[str, xr.Variable]:
    parameters = [weights.parameters for weights in smaller]
    share = np.array(parameters) / whole.parameters
    return {
        "experts_kept": variable(("rho",), [weights.experts.shape[1] for weights in smaller], "experts that stay"),
        "parameters": variable(("rho",), parameters, "numbers that the pruned layer holds"),
        "remaining_share": variable(("rho",), share, "parameters of the pruned layer, of those of the unpruned one"),
    }
