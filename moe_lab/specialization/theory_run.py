"""Tests of theorem 4.2, lemma 5.2 and lemma E.1 of chen2022 on the Snapshot of a trained mixture.

The paper does not state what "o(1)" and "with high probability" mean in a run of finite size: every threshold is an
argument here, and each Finding states the measured number next to it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from moe_lab.core.config import require
from moe_lab.core.findings import Finding, judged
from moe_lab.core.snapshots import Snapshot
from moe_lab.specialization import model as models
from moe_lab.specialization.data import ClusterTask
from moe_lab.specialization.mixture import initial_experts
from moe_lab.specialization.run import ClusterRun


def run_of(snapshot: Snapshot) -> ClusterRun:
    """Restores the Run of a Snapshot from its record.

    Raises:
      ValueError: the Snapshot is not of a SwitchMoE on a ClusterTask.
    """
    record: dict[str, Any] = (json.loads(str(snapshot.origin.get("config", "[]"))) or [{}])[0]
    kinds = record.get("model", {}).get("kind"), record.get("task", {}).get("kind")
    rule = "the Snapshot must be of a SwitchMoE on a ClusterTask"
    require(kinds == ("SwitchMoE", "ClusterTask"), rule, model=kinds[0], task=kinds[1])
    model, task = (
        {name: value for name, value in record[part].items() if name != "kind"} for part in ("model", "task")
    )
    return ClusterRun(**{**record, "model": models.SwitchMoE(**model), "task": ClusterTask(**task)})


def conditions_4_2(snapshot: Snapshot) -> tuple[Finding, ...]:
    """Tests the assumptions of theorem 4.2, as far as its Theta and Omega, which hide constants, allow a comparison.

    Returns one Finding, "holds" or "assumption not met", for each of the model, sigma_0, M, and n. The runs that work
    best violate the second: the theorem's sigma_0 is at least d^(-1/3), .27 for d=50.
    """
    run = run_of(snapshot)
    model, task = run.model, run.task
    assert isinstance(model, models.SwitchMoE)
    d = task.dimension
    low, high = d ** (-1 / 3), d**-0.01

    def finding(assumption: str, met: bool, sentence: str) -> Finding:
        return Finding(f"theorem 4.2, {assumption}", judged(met, True), sentence)

    return (
        finding(
            "model",
            model.activation == "cubic" and model.objective == "paper",
            f"The theorem is for cubic experts trained by algorithm 1; these are {model.activation}, "
            f"objective {model.objective!r}.",
        ),
        finding(
            "initialization",
            low <= model.initial_scale <= high,
            f"sigma_0 = {model.initial_scale:.3g}; required: d^(-1/3) = {low:.2g} to d^(-.01) = {high:.2g}.",
        ),
        finding(
            "experts",
            model.experts >= task.clusters * math.log(task.clusters),
            f"M = {model.experts} for K = {task.clusters} clusters; required: of the order of K log K = "
            f"{task.clusters * math.log(task.clusters):.1f}, times log log d.",
        ),
        finding(
            "samples",
            run.samples >= d,
            f"n = {run.samples} is {run.samples / d:.3g} d; required: at least of the order of d.",
        ),
    )


def groups(snapshot: Snapshot, *, expert_error: float = 0.05) -> Int[np.ndarray, "T M"]:
    """Assigns each expert to a cluster: M_k of theorem 4.2 is the group of experts assigned to cluster k.

    Of the clusters on which its error is small, an expert is assigned to the one with the most test samples dispatched
    to it (if there are none, to the one with the highest accuracy); if its error is small on no cluster, to the one
    with the highest accuracy. The theorem states only that such groups exist.

    Args:
      expert_error: largest error that counts as small.
    """
    received = np.swapaxes(_measured(snapshot, "dispatch"), -1, -2)  # (T, M, K)
    accuracy = _measured(snapshot, "expert_accuracy")
    return np.asarray((accuracy + np.where(accuracy >= 1 - expert_error, 1 + received, 0)).argmax(-1))


def theorem_4_2(
    snapshot: Snapshot,
    trial: int = 0,
    *,
    test_error: float = 0.01,
    expert_error: float = 0.05,
    routed: float = 0.99,
) -> tuple[Finding, ...]:
    """Tests the five statements of theorem 4.2 on one trained trial.

    They are: zero training error; test error of nearly 0; K non-empty groups of experts; a small error of each expert,
    used or not, on the cluster of its group; samples of a cluster dispatched only to its group.

    Args:
      snapshot: the last of a run (`final(train(...))`); in earlier ones the training error includes router noise.
      trial: index of the trial in the Snapshot.
      test_error: largest error that counts as o(1).
      expert_error: largest error of an expert on its cluster that counts as o(1).
      routed: smallest share of the test samples to be dispatched to an expert of their cluster's group.

    Raises:
      ValueError: the Snapshot is not of a mixture, was not measured, or does not have this trial.
    """
    require(0 <= trial < snapshot.trials, "trial must be one of the Snapshot's", trial=trial, trials=snapshot.trials)
    if snapshot.diverged[trial]:
        names = ("training error", "test error", "groups", "experts", "router")
        return tuple(Finding(f"theorem 4.2, {name}", "fails", "The trial diverged.") for name in names)
    train, test = (1 - float(_measured(snapshot, name)[trial]) for name in ("train_accuracy", "test_accuracy"))
    group = groups(snapshot, expert_error=expert_error)[trial]
    dispatch = _measured(snapshot, "dispatch")[trial]
    clusters, experts = dispatch.shape
    sizes = np.bincount(group, minlength=clusters)
    accuracy = _measured(snapshot, "expert_accuracy")[trial][np.arange(experts), group]
    good, worst = int((accuracy >= 1 - expert_error).sum()), 1 - float(accuracy.min())
    used = int((dispatch.sum(0) > 0).sum())
    share = float((dispatch * (group == np.arange(clusters)[:, None])).sum() / dispatch.sum())
    return (
        _conclusion("training error", train <= 1e-9, f"It is {train:.4f}; required: 0.", value=train),
        _conclusion(
            "test error", test <= test_error, f"It is {test:.4f}; required: at most {test_error:g}.", value=test
        ),
        _conclusion(
            "groups",
            bool((sizes > 0).all()),
            f"The {clusters} clusters have {', '.join(map(str, sizes))} experts; required: at least 1.",
            smallest=float(sizes.min()),
        ),
        _conclusion(
            "experts",
            good == experts,
            f"{good} of {experts} experts have an error of at most {expert_error:g} on their cluster; the largest "
            f"error is {worst:.4f}. {used} of {experts} experts get test samples.",
            good=float(good),
            worst=worst,
            used=float(used),
        ),
        _conclusion(
            "router",
            share >= routed,
            f"{share:.4f} of the test samples are dispatched to an expert of their cluster's group; required: at least "
            f"{routed:g}.",
            value=share,
        ),
    )


def _conclusion(name: str, true: bool, sentence: str, **numbers: float) -> Finding:
    return Finding(f"theorem 4.2, {name}", judged(True, true), sentence, numbers)


def predicted_clusters(run: ClusterRun, trials: Sequence[int]) -> Int[np.ndarray, "T M"]:
    """Predicts each expert's cluster by lemma 5.2: argmax over k and j of <v_k, w_mj> at initialization.

    The inner products of filters with a_j = -1 are negated.
    """
    model = run.model
    assert isinstance(model, models.SwitchMoE)
    d = run.task.dimension
    signals = run.task.signals(trials, run.seed).numpy()[:, : run.task.clusters]
    filters = initial_experts(trials, run.seed, model, d)[..., :d].numpy()
    products = np.einsum("tmjd,tkd->tmjk", filters, signals) * models.signs(model).numpy()[:, None]
    return np.asarray(products.max(axis=2).argmax(axis=-1))


def lemma_5_2(snapshot: Snapshot, *, agree: float = 0.9) -> Finding:
    """Compares lemma 5.2's prediction from the initial weights with the trained experts, over all trials.

    An expert's cluster is determined in three ways: by its accuracy (the cluster with the highest), for experts in use
    by dispatch (the cluster of most of its samples), and by its weights (the label signal with the largest inner
    product with a filter).

    Args:
      snapshot: of a mixture; the lemma is about the end of the exploration stage, the theorem about the end.
      agree: smallest share of experts that counts as agreement.
    """
    run = run_of(snapshot)
    predicted = predicted_clusters(run, run.trial_numbers)
    finite = ~snapshot.diverged
    best = (_measured(snapshot, "expert_accuracy").argmax(-1) == predicted)[finite]
    dispatch = _measured(snapshot, "dispatch")
    used = (dispatch.sum(1) > 0)[finite]
    dispatched = (dispatch.argmax(1) == predicted)[finite]
    weights = (_measured(snapshot, "expert_feature").argmax(-1) == predicted)[finite]
    shares = {
        "best": float(best.mean()) if finite.any() else float("nan"),
        "serves": float(dispatched[used].mean()) if used.any() else float("nan"),
        "weights": float(weights.mean()) if finite.any() else float("nan"),
        "chance": 1 / run.task.clusters,
    }
    model = run.model
    assert isinstance(model, models.SwitchMoE)
    return Finding(
        "lemma 5.2",
        judged(model.activation == "cubic" and model.objective == "paper", shares["best"] >= agree),
        f"The initial weights predict the cluster of {shares['best']:.0%} of the experts by accuracy, of "
        f"{shares['serves']:.0%} of the experts in use by dispatch, and of {shares['weights']:.0%} by weights; chance "
        f"level is {shares['chance']:.0%}.",
        shares,
    )


def lemma_e_1(snapshot: Snapshot, *, tolerance: float = 1e-3) -> Finding:
    """Tests lemma E.1: the sum of the routers remains 0, because the derivatives of the softmax sum to 0.

    The largest |sum_m <theta_m, s>| over all signals s is compared with the largest |<theta_m, s>|. The load-balancing
    loss may be on, because its gradient passes through the same softmax. With the authors' objective the winner's score
    itself multiplies the expert, so that the derivatives do not sum to 0.
    """
    run = run_of(snapshot)
    model = run.model
    assert isinstance(model, models.SwitchMoE)
    routers = np.concatenate([_measured(snapshot, name) for name in ("router_feature", "router_center")], axis=-1)
    routers = routers[~snapshot.diverged]
    largest, total = float(np.abs(routers).max(initial=0)), float(np.abs(routers.sum(axis=1)).max(initial=0))
    met = model.objective == "paper"
    return Finding(
        "lemma E.1",
        judged(met, total <= tolerance * largest or total == 0),
        f"Inner products with the signals are at most {total:.2g} for the sum of the routers and {largest:.2g} for one."
        + ("" if met else " The authors' objective uses no softmax."),
        {"sum": total, "largest": largest},
    )


def _measured(snapshot: Snapshot, name: str) -> Float[np.ndarray, "*shape"]:
    require(name in snapshot.values, f"the Snapshot must have {name}", measured=sorted(snapshot.values))
    return np.asarray(snapshot[name], dtype=float)
