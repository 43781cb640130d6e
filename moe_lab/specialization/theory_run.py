"""Theorem 4.2, lemma 5.2 and lemma E.1 of chen2022, read off a trained mixture's Snapshot.

What "o(1)" and "with high probability" mean in a run of finite size is not said by the paper: every threshold is an
argument here, and each sentence gives the number beside it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from moe_lab.config import require
from moe_lab.findings import Finding, judged
from moe_lab.specialization import model as models
from moe_lab.specialization.data import ClusterTask
from moe_lab.specialization.run import Run
from moe_lab.training import Snapshot


def run_of(snapshot: Snapshot) -> Run:
    """The Run that a Snapshot comes from, from its own record.

    Raises:
      ValueError: the Snapshot is of no mixture on clusters.
    """
    record: dict[str, Any] = (json.loads(str(snapshot.origin.get("config", "[]"))) or [{}])[0]
    kinds = record.get("model", {}).get("kind"), record.get("task", {}).get("kind")
    rule = "the Snapshot must be of a SwitchMoE on a ClusterTask"
    require(kinds == ("SwitchMoE", "ClusterTask"), rule, model=kinds[0], task=kinds[1])
    plain = {name: {key: value for key, value in record[name].items() if key != "kind"} for name in ("model", "task")}
    return Run(**{**record, "model": models.SwitchMoE(**plain["model"]), "task": ClusterTask(**plain["task"])})


def conditions_4_2(snapshot: Snapshot) -> tuple[Finding, ...]:
    """What theorem 4.2 asks for, as far as a number can be compared: its Theta and Omega hide constants.

    Told as "holds" or "assumption not met", one Finding each: the model, sigma_0, M, and n. The runs that work best
    break the second: the theorem's sigma_0 is at least d^(-1/3), .27 for d=50.
    """
    run = run_of(snapshot)
    model, task = run.model, run.task
    assert isinstance(model, models.SwitchMoE)
    d = task.dimension
    low, high = d ** (-1 / 3), d**-0.01

    def told(statement: str, met: bool, sentence: str) -> Finding:
        return Finding(f"theorem 4.2, {statement}", judged(met, True), sentence)

    return (
        told(
            "model",
            model.activation == "cubic" and model.objective == "paper",
            f"It is proved for cubic experts trained by algorithm 1; these are {model.activation}, "
            f"objective {model.objective!r}.",
        ),
        told(
            "first weights",
            low <= model.initial_scale <= high,
            f"sigma_0 = {model.initial_scale:.3g}; asked for: d^(-1/3) = {low:.2g} to d^(-.01) = {high:.2g}.",
        ),
        told(
            "experts",
            model.experts >= task.clusters * math.log(task.clusters),
            f"M = {model.experts} for K = {task.clusters} clusters; asked for: of the order of K log K = "
            f"{task.clusters * math.log(task.clusters):.1f}, times log log d.",
        ),
        told(
            "samples",
            run.samples >= d,
            f"n = {run.samples} is {run.samples / d:.3g} d; asked for: at least of the order of d.",
        ),
    )


def groups(snapshot: Snapshot, *, expert_error: float = 0.05) -> Int[np.ndarray, "T M"]:
    """For each expert the cluster that it stands for: M_k of theorem 4.2 are the experts with the same one.

    Among the clusters on which it is good, the one that sends it most test samples (the better one of two that send it
    none); if it is good on no cluster, the one on which it is best. The theorem says that such a division exists.

    Args:
      expert_error: largest error that counts as good.
    """
    accuracy = _measured(snapshot, "expert_accuracy")
    received = np.swapaxes(_measured(snapshot, "dispatch"), -1, -2)  # (T, M, K)
    return np.asarray((accuracy + np.where(accuracy >= 1 - expert_error, 1 + received, 0)).argmax(-1))


def theorem_4_2(
    snapshot: Snapshot,
    trial: int = 0,
    *,
    test_error: float = 0.01,
    expert_error: float = 0.05,
    routed: float = 0.99,
) -> tuple[Finding, ...]:
    """The five statements of theorem 4.2 about one trained trial, each told with its number.

    Zero training error; test error nearly 0; the experts fall into K non-empty groups; each expert is good on its
    group's cluster, those that get no sample included; the router sends a cluster's samples to its group only.

    Args:
      snapshot: the last of a run (`final(train(...))`); earlier ones measure training error with router noise on.
      trial: which trial, counted in the Snapshot.
      test_error: largest error that counts as o(1).
      expert_error: the same for an expert on its cluster.
      routed: smallest share of the test samples that must reach an expert of their cluster's group.

    Raises:
      ValueError: the Snapshot is of no mixture, was not measured, or has no such trial.
    """
    require(0 <= trial < snapshot.trials, "trial must be one of the Snapshot's", trial=trial, trials=snapshot.trials)
    clusters, experts = _measured(snapshot, "dispatch").shape[1:]
    if snapshot.diverged[trial]:
        names = ("training error", "test error", "groups", "experts", "router")
        return tuple(Finding(f"theorem 4.2, {name}", "fails", "The trial diverged.") for name in names)
    wrong = 1 - float(_measured(snapshot, "train_accuracy")[trial])
    error = 1 - float(_measured(snapshot, "test_accuracy")[trial])
    group = groups(snapshot, expert_error=expert_error)[trial]
    sizes = np.bincount(group, minlength=clusters)
    own = _measured(snapshot, "expert_accuracy")[trial][np.arange(experts), group]
    good = own >= 1 - expert_error
    dispatch = _measured(snapshot, "dispatch")[trial]
    reached = float((dispatch * (group == np.arange(clusters)[:, None])).sum() / dispatch.sum())
    used = int((dispatch.sum(0) > 0).sum())

    def told(name: str, true: bool, sentence: str, **numbers: float) -> Finding:
        return Finding(f"theorem 4.2, {name}", judged(True, true), sentence, numbers)

    return (
        told("training error", wrong <= 1e-9, f"It is {wrong:.4f}, to be 0.", value=wrong),
        told("test error", error <= test_error, f"It is {error:.4f}, to be at most {test_error:g}.", value=error),
        told(
            "groups",
            bool((sizes > 0).all()),
            f"The {clusters} clusters have {', '.join(str(size) for size in sizes)} experts; none may have 0.",
            smallest=float(sizes.min()),
        ),
        told(
            "experts",
            bool(good.all()),
            f"{int(good.sum())} of {experts} experts err on at most {expert_error:g} of their cluster; the worst on "
            f"{1 - float(own.min()):.4f}. {used} of {experts} get test samples.",
            good=float(good.sum()),
            worst=1 - float(own.min()),
            used=float(used),
        ),
        told(
            "router",
            reached >= routed,
            f"{reached:.4f} of the test samples go to an expert of their cluster's group; to be at least {routed:g}.",
            value=reached,
        ),
    )


def predicted_clusters(run: Run, trials: Sequence[int]) -> Int[np.ndarray, "T M"]:
    """Lemma 5.2: which cluster each expert will serve, argmax over k and j of <v_k, w_mj> in the first weights.

    A filter that counts negatively (a_j = -1, where half of the filters do) enters with its sign turned round.

    Args:
      run: of a SwitchMoE.
      trials: numbers of trials, as in `Run.first_trial`.
    """
    model = run.model
    assert isinstance(model, models.SwitchMoE)
    d = run.task.dimension
    signals = run.task.signals(trials, run.seed).numpy()[:, : run.task.clusters]
    first = np.stack([models.initial_experts(trial, run.seed, model, d)[..., :d] for trial in trials])
    products = np.einsum("tmjd,tkd->tmjk", first, signals) * models.signs(model)[:, None]
    return np.asarray(products.max(axis=2).argmax(axis=-1))


def lemma_5_2(snapshot: Snapshot, *, agree: float = 0.9) -> Finding:
    """Lemma 5.2's prediction from the first weights against what the trained experts do, over all trials.

    Told for all experts (on which cluster is each best?), for those in use (from which cluster do most of its samples
    come?), and for all experts by their weights (which label signal has the largest product with a filter?).

    Args:
      snapshot: of a mixture; the lemma is about the end of the exploration stage, the theorem about the end.
      agree: smallest share of experts that counts as agreement.
    """
    run = run_of(snapshot)
    predicted = predicted_clusters(run, run.trial_numbers)
    kept = ~snapshot.diverged
    best = (_measured(snapshot, "expert_accuracy").argmax(-1) == predicted)[kept]
    dispatch = _measured(snapshot, "dispatch")
    used = (dispatch.sum(1) > 0)[kept]
    serves = (dispatch.argmax(1) == predicted)[kept]
    weights = (_measured(snapshot, "expert_feature").argmax(-1) == predicted)[kept]
    shares = {
        "best": float(best.mean()) if kept.any() else float("nan"),
        "serves": float(serves[used].mean()) if used.any() else float("nan"),
        "weights": float(weights.mean()) if kept.any() else float("nan"),
        "chance": 1 / run.task.clusters,
    }
    model = run.model
    assert isinstance(model, models.SwitchMoE)
    return Finding(
        "lemma 5.2",
        judged(model.activation == "cubic" and model.objective == "paper", shares["best"] >= agree),
        f"The first weights foretell the cluster of {shares['best']:.0%} of the experts (by accuracy), of "
        f"{shares['serves']:.0%} of those that get samples, of {shares['weights']:.0%} by their weights; guessing "
        f"would get {shares['chance']:.0%}.",
        shares,
    )


def lemma_e_1(snapshot: Snapshot, *, tolerance: float = 1e-3) -> Finding:
    """Lemma E.1: the routers' sum stays 0, because the softmax's slopes sum to 0.

    It is read along the signals: |sum_m <theta_m, s>| over all signals s, against the largest |<theta_m, s>|. The
    slopes of a load-balancing loss go through the same softmax, so that it may be on. In the authors' form the winner's
    score itself multiplies the expert: nothing sums to 0 there.
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
        f"The routers' sum has products with signals of at most {total:.2g}, single routers of up to {largest:.2g}."
        + ("" if met else " The authors' objective uses no softmax."),
        {"sum": total, "largest": largest},
    )


def _measured(snapshot: Snapshot, name: str) -> Float[np.ndarray, "*shape"]:
    require(name in snapshot.values, f"the Snapshot must have {name}", measured=sorted(snapshot.values))
    return np.asarray(snapshot[name], dtype=float)
