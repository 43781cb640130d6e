"""The measures of a mixture on clusters, and how they are computed from scores and outputs."""

from __future__ import annotations

import math

from jaxtyping import Float, Int, Num
from torch import Tensor

from moe_lab.core.routing import one_hot
from moe_lab.core.snapshots import Measure
from moe_lab.routers import balance

_TRAINING = "in the last step, with its router noise (at step 0 and at the end: without noise)"
MEASURES = {
    "test_accuracy": Measure((), "", "share of test samples with the right label"),
    "cluster_accuracy": Measure(("cluster",), "", "share of the cluster's test samples with the right label"),
    "train_accuracy": Measure((), "", f"share of training samples with the right label {_TRAINING}"),
    "train_loss": Measure((), "", f"mean loss over the training samples {_TRAINING}"),
    "dispatch_entropy": Measure(
        (), "nats", "eq. 6.1 on test samples: 0 if every expert gets one cluster only, log K if none specialises"
    ),
    "dispatch": Measure(("cluster", "expert"), "samples", "test samples of the cluster dispatched to the expert"),
    "expert_load": Measure(("expert",), "", "share of the test samples dispatched to the expert"),
    "expert_accuracy": Measure(
        ("expert", "cluster"),
        "",
        "share of the cluster's test samples, dispatched anywhere, that the expert gets right",
    ),
    "expert_feature": Measure(("expert", "cluster"), "", "largest |<w, v_k>| among the expert's filters w"),
    "expert_center": Measure(("expert", "cluster"), "", "largest |<w, c_k>| among the expert's filters w"),
    "router_feature": Measure(("expert", "cluster"), "", "<theta, v_k> of the expert's router theta"),
    "router_center": Measure(("expert", "cluster"), "", "<theta, c_k> of the expert's router theta"),
}
TOP_K_MEASURES = {
    "load_entropy": Measure((), "nats", "entropy of expert_load: log M if all receive alike, 0 if one gets all"),
    "maximal_violation": Measure((), "", "by how much the largest load exceeds the mean load, relative to the mean"),
    "agreement": Measure((), "", "share of the assignments whose sample is of its expert's most frequent cluster"),
    "score_size": Measure((), "", "mean over the test samples of |log sum_m exp h_m - log M|, 0 for a router at 0"),
    "selection_bias": Measure(("expert",), "", "the bias added to the expert's scores for the selection alone"),
    "shared_feature": Measure(("shared_expert", "cluster"), "", "largest |<w, v_k>| among the shared expert's filters"),
}
"""What `TopKMoE` is measured by besides; shared experts have no dispatch."""


def agreement(dispatch: Num[Tensor, "*T K M"]) -> Float[Tensor, "*T"]:
    """Computes the share of assignments whose sample is of its expert's most frequent cluster (purity).

    It is 1 if no expert gets two clusters, however many experts share one, and the share of the most frequent cluster
    if one expert gets everything.

    >>> import torch
    >>> agreement(torch.tensor([[4.0, 0.0, 0.0], [0.0, 2.0, 2.0]])).item()
    1.0
    >>> agreement(torch.ones(4, 8)).item()
    0.25
    """
    counts = balance.in_full(dispatch)
    return counts.amax(-2).sum(-1) / counts.sum((-2, -1))


def counted(
    every: Float[Tensor, "T M N"],
    chosen: Float[Tensor, "T M N"],
    output: Float[Tensor, "T N"],
    labels: Float[Tensor, "T N"],
    clusters: Int[Tensor, "T N"],
    kinds: int,
) -> dict[str, Tensor]:
    """Computes the measures that count test samples; NaN for clusters without samples.

    Args:
      every: f of every expert.
      chosen: 1 where an expert gets a sample, else 0.
      output: F(x).
      labels, clusters: y and k.
      kinds: K.
    """
    member = one_hot(clusters, kinds).to(every.dtype)  # (T, N, K)
    right = (labels * output > 0).to(every.dtype)
    dispatch = (chosen @ member).mT
    samples = member.sum(1)
    expert_right = (labels[:, None] * every > 0).to(every.dtype) @ member
    return {
        "test_accuracy": right.sum(1) / samples.sum(1),
        "cluster_accuracy": (right[:, None] @ member)[:, 0] / samples,
        "dispatch_entropy": balance.dispatch_entropy(dispatch),
        "dispatch": dispatch,
        "expert_load": dispatch.sum(1) / samples.sum(1)[:, None],
        "expert_accuracy": expert_right / samples[:, None],
    }


def load_measures(
    dispatch: Float[Tensor, "T K M"], scores: Float[Tensor, "T M N"], experts_per_sample: int
) -> dict[str, Tensor]:
    """Computes how evenly the test samples are dispatched, from their numbers and their scores h."""
    experts, samples = scores.shape[1:]
    load = dispatch.sum(1) / samples / experts_per_sample
    return {
        "expert_load": load,
        "load_entropy": balance.load_entropy(load),
        "maximal_violation": balance.maximal_violation(load),
        "agreement": agreement(dispatch),
        "score_size": (scores.logsumexp(1) - math.log(experts)).abs().sum(1) / samples,
    }


def largest_products(
    filters: Float[Tensor, "T M J d"], signals: Float[Tensor, "T S d"]
) -> tuple[Float[Tensor, "T M K"], Float[Tensor, "T M K"]]:
    """Computes the largest |<w, v_k>| and |<w, c_k>| over the filters of each expert (figures 4 and 5)."""
    products = (filters @ signals[:, None].mT).abs().amax(2)
    half = signals.shape[1] // 2
    return products[..., :half], products[..., half:]
