"""Measurements behind chen2022's claims beyond the room's figures: theorems and lemmas per trial, figure 1 repeated."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.snapshots import Snapshot, final
from moe_lab.core.trials import stream, threads_for
from moe_lab.specialization import (
    ClusterRun,
    ClusterTask,
    SwitchMoE,
    TopKMoE,
    embedding,
    figures,
    recipes,
    theory,
    train,
    train_run,
)
from moe_lab.specialization.learners import MixtureLearner
from moe_lab.specialization.theory_noise import Noise
from moe_lab.specialization.theory_run import run_of
from moe_lab.specialization.theory_single import PatchFunction

_STATEMENTS = {
    "training error": ("training_error", "value"),
    "test error": ("test_error", "value"),
    "groups": ("smallest_group", "smallest"),
    "experts": ("good_experts", "good"),
    "router": ("routed", "value"),
}
"""Statements of theorem 4.2 -> (variable of the Dataset, number of the Finding)."""


def random_function(generator: np.random.Generator, dimension: int, width: int = 12) -> PatchFunction:
    """Returns a function of one patch, neither odd nor even: a small random network."""
    first, last = generator.standard_normal((dimension, width)), generator.standard_normal(width)
    weights, shifts, ends = (torch.as_tensor(part) for part in (2 * first, generator.standard_normal(width), last))

    def f(patches: Tensor) -> Tensor:
        return torch.sin(patches.double() @ weights + shifts) @ ends

    return f


def single_functions(trials: int = 40, samples: int = 500, seed: int = 0) -> xr.Dataset:
    """Computes theorem 4.1 and its proof for random functions, and for the classifier that shows the bound to be tight.

    Returns:
      test_error and least_wrong (of each four configurations of appendix B) over (trial,), one random function each, in
      setting 3; tight_error(clusters) of `theory.tight_classifier` over every configuration of K clusters, and
      tight_drawn(trial), its test error in setting 3.
    """
    task = ClusterTask.setting(3)
    errors, wrong, tight_errors = [], [], []
    for trial in range(trials):
        f = random_function(stream(seed, trial, "a function of patches"), task.dimension)
        errors.append(theory.theorem_4_1(f, task, samples=samples, trial=trial, seed=seed)["test error"])
        wrong.append(theory.appendix_b(f, task, samples=samples, trial=trial, seed=seed)["least wrong"])
        tight = theory.tight_classifier(task.signals([trial], seed)[0])
        tight_errors.append(theory.theorem_4_1(tight, task, samples=samples, trial=trial, seed=seed)["test error"])
    kinds = list(range(2, 9))
    exact = []
    for clusters in kinds:
        signals = task.replace(clusters=clusters).signals([0], seed)[0]
        f = theory.tight_classifier(signals)
        exact.append(1 - theory.additive_accuracy(f, theory.every_configuration(signals)))
    values = {"test_error": errors, "least_wrong": wrong, "tight_drawn": tight_errors}
    data = xr.Dataset({name: ("trial", np.array(part)) for name, part in values.items()}, {"trial": np.arange(trials)})
    return data.assign(tight_error=("clusters", np.array(exact))).assign_coords(clusters=kinds)


def smooth_routing(
    trials: int = 200, tries: int = 300, experts: Sequence[int] = (2, 4, 8, 16), seed: int = 0
) -> xr.Dataset:
    """Computes lemmas 5.1, C.1, C.3 and C.4 and remark C.2 at random scores.

    Args:
      trials: random score vectors for C.3 and C.4.
      tries: number of tries in the search for the largest change (C.1, 5.1).
      experts: numbers of experts M.

    Returns:
      worst_ratio(noise, experts), the largest |p - p^| / |h - h^| found, and bound(noise, experts), kappa M^2;
      pair_ratio(trial), the largest |p_m - p_m'| / (M^2 |h_m - h_m'|); beaten_share(trial), the largest probability of
      an expert whose score is at least 1 below the largest.
    """
    kinds: dict[str, Noise] = {
        "uniform 1": theory.UniformNoise(),
        "uniform 4": theory.UniformNoise(-2.0, 2.0),
        "gaussian .3": theory.GaussianNoise(0.3),
        "gaussian 1": theory.GaussianNoise(1.0),
    }
    worst = [
        [theory.worst_ratio(m, tries=tries, seed=seed, noise=kind).ratio for m in experts] for kind in kinds.values()
    ]
    bound = [[kind.density_bound * m**2 for m in experts] for kind in kinds.values()]
    pairs, beaten = [], []
    for trial in range(trials):
        m, generator = experts[trial % len(experts)], stream(seed, trial, "scores")
        close = theory.lemma_c_3(generator.uniform(-0.5, 0.5, m))
        pairs.append(close["ratio"] / close["bound"])
        scores = generator.uniform(-3, 0, m)
        scores[0] = scores[1:].min() + 1 + generator.uniform(0, 1)  # so that one expert has no chance
        beaten.append(theory.lemma_c_4(scores)["largest probability"])
    return xr.Dataset(
        {
            "worst_ratio": (("noise", "experts"), np.array(worst)),
            "bound": (("noise", "experts"), np.array(bound)),
            "pair_ratio": ("trial", np.array(pairs)),
            "beaten_share": ("trial", np.array(beaten)),
        },
        coords={"noise": list(kinds), "experts": list(experts), "trial": np.arange(trials)},
    )


def mixture_theorem(
    trials: int = 12,
    samples: int = 4000,
    seed: int = 0,
    device: str = "auto",
    *,
    steps: int = 300,
    dimension: int = 50,
    **model: Any,
) -> xr.Dataset:
    """Evaluates theorem 4.2 and lemma E.1 on cubic mixtures trained by algorithm 1 in setting 3.

    Args:
      steps: training steps.
      dimension: d.
      model: parameters of SwitchMoE to change.

    Returns:
      Over (trial,), NaN where a trial diverged: training_error, test_error, smallest_group (experts of the cluster with
      the fewest), good_experts (share of experts that err on at most 5 % of their cluster) and routed (share of test
      samples that reach their cluster's group). router_sum: the largest product of the routers' sum with a signal, over
      the largest of a single router.
    """
    last = _trained(SwitchMoE(**model), trials, samples, seed, device, steps, dimension)
    found = [theory.theorem_4_2(last, trial) for trial in range(trials)]
    values = {}
    for place, (name, key) in enumerate(_STATEMENTS.values()):
        values[name] = "trial", np.array([statements[place].numbers.get(key, np.nan) for statements in found])
    data = xr.Dataset(values, {"trial": np.arange(trials)})
    data["good_experts"] = data["good_experts"] / last["expert_accuracy"].shape[1]
    sums = theory.lemma_e_1(last)
    return data.assign(router_sum=sums["sum"] / sums["largest"])


def exploration(trials: int = 12, samples: int = 4000, seed: int = 0, device: str = "auto") -> xr.Dataset:
    """Evaluates experts after the exploration stage of floor(sqrt(sigma_0) / eta) steps, in setting 3 (lemma 5.2).

    Returns:
      own_error, on the cluster predicted from the initial weights, other_error, on the other clusters, and foretold,
      the share of experts whose largest product with a label signal is the predicted one; means over experts, (trial,).
    """
    model = SwitchMoE()
    last = _trained(model, trials, samples, seed, device, math.floor(model.initial_scale**0.5 / model.learning_rate))
    accuracy = last["expert_accuracy"]  # (T, M, K)
    predicted = theory.predicted_clusters(run_of(last), range(trials))
    own = np.take_along_axis(accuracy, predicted[..., None], axis=-1)[..., 0]
    others = (accuracy.sum(-1) - own) / (accuracy.shape[-1] - 1)
    values = {
        "own_error": 1 - own,
        "other_error": 1 - others,
        "foretold": last["expert_feature"].argmax(-1) == predicted,
    }
    made = {name: ("trial", np.asarray(part, dtype=float).mean(-1)) for name, part in values.items()}
    return xr.Dataset(made, {"trial": np.arange(trials)})


def soft_routing(samples: int, steps: int, repeats: int, seed: int = 0) -> xr.Dataset:
    """Times training steps of cubic mixtures in setting 3, with one expert per sample and with all eight (section 3.2).

    Args:
      samples: of training.
      steps: of each measurement.
      repeats: measurements of either, in turn.
      seed: of data and weights.

    Returns:
      seconds(experts_per_sample, repeat) of CPU time, on one thread.
    """
    task, counts = ClusterTask.setting(3), (1, SwitchMoE().experts)
    given: dict[str, Any] = {"samples": samples, "test_samples": 10, "trials": 1, "seed": seed, "device": "cpu"}
    learners, seconds = [], np.empty((len(counts), repeats))
    with threads_for(0, torch.device("cpu")):
        for count in counts:
            model = TopKMoE(filters=16, experts_per_sample=count)
            run = ClusterRun(model=model, task=task, **given)
            learners.append(MixtureLearner(run, [0]))
            learners[-1].advance(1)
        for repeat in range(repeats):
            for row, learner in enumerate(learners):
                before = time.process_time()
                learner.advance(steps)
                seconds[row, repeat] = time.process_time() - before
    return xr.Dataset({"seconds": (("experts_per_sample", "repeat"), seconds)}, {"experts_per_sample": list(counts)})


def figure_1(
    trials: int = 12, samples: int = 1600, seed: int = 0, device: str = "auto", *, shown: int = 1600
) -> xr.Dataset:
    """Trains figure 1's two mixtures of four experts repeatedly, and maps the trial that divides the clusters best.

    Returns:
      What `figures.tsne` returns for the trial in which the cubic experts' entropy is lowest, and trial_entropy and
      trial_accuracy over (model, trial) for all of them.
    """
    names = ("moe-linear", "moe-cubic")
    changes: dict[str, dict[str, Any]] = {"task": embedding.RANGES}
    changes |= {name: {"experts": embedding.EXPERTS_SHOWN} for name in names}
    how: dict[str, Any] = {"trials": trials, "seed": seed, "objective": "paper", "changes": changes}
    settings = {"samples": samples, "test_samples": shown, "measure": "last", "device": device}
    runs = [recipes.run_of({"setting": 3, "model": name}, settings=settings, **how) for name in names]
    ends = [final(train_run(run)) for run in runs]
    best = int(np.nanargmin(ends[1]["dispatch_entropy"]))
    data = figures.tsne(seed, samples=samples, shown=shown, trial=best, device=device)
    for name, measure in (("trial_entropy", "dispatch_entropy"), ("trial_accuracy", "test_accuracy")):
        data[name] = ("model", "trial"), np.stack([end[measure] for end in ends])
    return data


def dispatch_tables(
    kind: str, objective: str, samples: int, trials: int, seed: int = 0, device: str = "auto", **more: Any
) -> xr.Dataset:
    """Counts the dispatch of tables 4 to 6 in several trainings in setting 1, each on its own data.

    Args:
      kind, objective, samples, more: as for `figures.dispatch_table`.
      trials: trainings.

    Returns:
      What `figures.dispatch_table` returns for the first training, and trial_initial and trial_final over (trial,
      cluster, expert), trial_entropy and trial_accuracy over (trial,) for all of them.
    """
    require(trials >= 1, "trials must be at least 1", trials=trials)
    given: dict[str, Any] = {"samples": samples, "seed": seed, "device": device, **more}
    tables = [figures.dispatch_table(kind, objective=objective, trial=trial, **given) for trial in range(trials)]
    every = xr.concat(tables, xr.Variable("trial", np.arange(trials)), combine_attrs="drop")
    names = {"initial_dispatch": "initial", "final_dispatch": "final", "dispatch_entropy": "entropy"}
    names["test_accuracy"] = "accuracy"
    return tables[0].assign({f"trial_{short}": every[name] for name, short in names.items()})


def _trained(
    model: SwitchMoE, trials: int, samples: int, seed: int, device: str, steps: int, dimension: int = 50
) -> Snapshot:
    require(trials >= 1, "trials must be at least 1", trials=trials)
    settings: dict[str, Any] = {"samples": samples, "test_samples": samples, "measure": "last", "steps": steps}
    task = ClusterTask.setting(3).replace(dimension=dimension)
    return final(train(model, task, trials=trials, seed=seed, device=device, **settings))
