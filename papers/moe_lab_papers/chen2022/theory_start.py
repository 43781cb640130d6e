"""The lemmas of chen2022 about the start and the exploration stage: D.1, D.2, D.4, E.4, E.6, E.7 and F.1, and eq. 5.1.

They hide constants and logarithms. What is left is how quantities grow with n, d and sigma_0, which `Explored` and the
functions measure, and `power` reads off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from moe_lab.core.config import require
from moe_lab.core.trials import stream
from moe_lab.specialization import mixture
from moe_lab.specialization import model as models
from moe_lab.specialization.data import ClusterTask
from moe_lab.specialization.learners import MixtureLearner
from moe_lab.specialization.noise import router_noise
from moe_lab.specialization.run import ClusterRun
from moe_lab.specialization.theory_noise import PAPER_NOISE, Noise, routing_probabilities
from moe_lab.specialization.theory_run import predicted_clusters


def power(sizes: Sequence[float], values: Sequence[float] | np.ndarray) -> float:
    """Returns the slope of log value against log size, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def expected_load(scores: Float[np.ndarray, "n M"], noise: Noise = PAPER_NOISE) -> Float[np.ndarray, " M"]:
    """Computes Load_m = sum_i P(m_i = m), the samples that expert m is expected to get under the noise (eq. 5.1).

    >>> expected_load(np.zeros((12, 4))).round(9)
    array([3., 3., 3., 3.])
    """
    return np.asarray(np.sum([routing_probabilities(row, noise) for row in scores], axis=0))


def second_largest(experts: int, gap: float, tries: int, seed: int = 0) -> float:
    """Estimates P(a2 >= (1 - G) a1) for the two largest of M standard normal numbers; lemma F.1 bounds it by G M^2.

    Raises:
      ValueError: there are not at least two experts.
    """
    require(experts >= 2, "experts (M) must be at least 2", M=experts)
    drawn = np.sort(stream(seed, 0, "two largest").standard_normal((tries, experts)), axis=1)
    return float((drawn[:, -2] >= (1 - gap) * drawn[:, -1]).mean())


def cubed_sums(
    task: ClusterTask, counts: Sequence[int], trials: int, seed: int = 0
) -> tuple[Float[np.ndarray, " counts"], Float[np.ndarray, " counts"]]:
    """Computes the sums of lemma D.1 over a cluster's samples, as root mean squares over clusters and trials.

    Returns:
      Of sum_i y_i beta_i^3, and of sum_i alpha_i^3 less E[alpha^3] n / K, for each n; both are O(sqrt(n)).
    """
    low, high = task.feature
    mean = (high**4 - low**4) / (4 * (high - low)) * task.scale**3
    found = np.empty((2, len(counts), trials, task.clusters))
    for trial in range(trials):
        drawn = task.sample(max(counts), trials=[trial], seed=seed, dtype=torch.float64)
        y, strengths, clusters = (part[0].numpy() for part in (drawn.labels, drawn.strengths, drawn.clusters))
        for row, n in enumerate(counts):
            for k in range(task.clusters):
                own = clusters[:n] == k
                found[0, row, trial, k] = (y[:n] * strengths[:n, 1] ** 3)[own].sum()
                found[1, row, trial, k] = (np.abs(strengths[:n, 0]) ** 3)[own].sum() - mean * n / task.clusters
    centers, features = np.sqrt((found**2).mean((2, 3)))
    return centers, features


def noise_products(
    task: ClusterTask, dimensions: Sequence[int], samples: int, trial: int = 0, seed: int = 0
) -> tuple[Float[np.ndarray, " dimensions"], Float[np.ndarray, " dimensions"], Float[np.ndarray, " dimensions"]]:
    """Computes the products of lemma D.2, for each d.

    Returns:
      The largest norm of a noise patch; the largest product of one with a signal; and that with another noise patch.
    """
    found = []
    for d in dimensions:
        drawn = task.replace(dimension=d).sample(samples, trials=[trial], seed=seed, dtype=torch.float64)
        noise = drawn.noise[0].flatten(0, 1)
        others = (noise @ noise.T).fill_diagonal_(0)
        found.append([float(noise.norm(dim=1).max()), float((noise @ drawn.signals[0].T).abs().max())])
        found[-1].append(float(others.abs().max()))
    norm, signal, other = np.array(found).T
    return norm, signal, other


@dataclass(frozen=True)
class Explored:
    """A mixture after T_1 = floor(sqrt(sigma_0) / eta) steps, for each trial.

    Attributes:
      start: the smallest <w_{m,j*}, v_{k*}> of an expert before training, over sigma_0 (lemma D.4).
      own: the mean of <w_{m,j*}, v_{k*}> over experts (lemma E.6).
      other: the largest product of any other filter and signal (lemma E.6).
      along: the smallest share of an expert's gradient that is along v_{k*} at its filter j* (lemma E.7).
      uneven: the largest |P(m_i = m) - 1/M| over samples and experts (lemma E.4).
      load: (T, M) the expected load (eq. 5.1) of some samples, over their number.
      clusters: (T, M) k*, the group M_k of each expert.
    """

    start: Float[np.ndarray, " T"]
    own: Float[np.ndarray, " T"]
    other: Float[np.ndarray, " T"]
    along: Float[np.ndarray, " T"]
    uneven: Float[np.ndarray, " T"]
    load: Float[np.ndarray, "T M"]
    clusters: Int[np.ndarray, "T M"]

    def group_ratio(self) -> Float[np.ndarray, " T"]:
        """Returns the smallest over the largest load of a group, in the worst group; NaN without a group of two."""
        found = []
        for load, cluster in zip(self.load, self.clusters, strict=True):
            groups = [load[cluster == k] for k in np.unique(cluster)]
            found.append(min((one.min() / one.max() for one in groups if len(one) > 1), default=np.nan))
        return np.array(found)


def explored(run: ClusterRun, *, counted: int = 40) -> Explored:
    """Trains a mixture for the exploration stage and compares it with lemmas D.4, E.4, E.6, E.7 and section 5.

    Args:
      run: of a SwitchMoE with the paper's objective on a ClusterTask; its steps do not matter.
      counted: training samples whose routing probabilities are computed.

    Raises:
      ValueError: another model or objective.
    """
    model = run.model
    known = isinstance(model, models.SwitchMoE) and model.objective == "paper"
    require(known, "the lemmas are about algorithm 1", model=type(model).__name__)
    assert isinstance(model, models.SwitchMoE)
    trials = run.trial_numbers
    learner = MixtureLearner(run, trials)
    first = _products(learner)
    T, M, _, S = first.shape
    best = first[..., : S // 2].reshape(T, M, -1).argmax(-1)  # (j*, k*) of each expert
    filters, clusters = best // (S // 2), best % (S // 2)
    assert (clusters == predicted_clusters(run, trials)).all()
    learner.advance(math.floor(model.initial_scale**0.5 / model.learning_rate))
    now = _products(learner)
    chosen = np.zeros(now.shape, dtype=bool)
    chosen[np.arange(T)[:, None], np.arange(M), filters, clusters] = True
    scores = learner.state.routers @ learner.train.totals[:, :counted].mT  # (T, M, b)
    shares = np.array([[routing_probabilities(row) for row in trial.double().T.numpy()] for trial in scores])
    return Explored(
        start=first[chosen].reshape(T, M).min(1) / model.initial_scale,
        own=now[chosen].reshape(T, M).mean(1),
        other=np.abs(np.where(chosen, 0, now)).max((1, 2, 3)),
        along=gradient_along(learner, filters, clusters).min(1),
        uneven=np.abs(shares - 1 / M).max((1, 2)),
        load=np.array([expected_load(trial.double().T.numpy()) / trial.shape[1] for trial in scores]),
        clusters=clusters,
    )


def _products(learner: MixtureLearner) -> Float[np.ndarray, "T M J S"]:
    """<w_{m,j}, s> for every filter and signal, negated where a_j = -1 so that growth is positive."""
    d = learner.run.task.dimension
    signed = learner.state.experts[..., :d] * models.signs(learner.model).to(learner.like)[:, None]
    return torch.einsum("tmjd,tsd->tmjs", signed, learner.signals).double().cpu().numpy()


def gradient_along(learner: MixtureLearner, filters: np.ndarray, clusters: np.ndarray) -> Float[np.ndarray, "T M"]:
    """Computes -<gradient of w_{m,j*}, v_{k*}> over the norm of the gradient of expert m."""
    model, samples = learner.model, learner.run.samples
    streams = [stream(learner.run.seed, trial, "noise of a gradient") for trial in learner.trials]
    noise = router_noise(model, streams, samples, learner.like)
    gradient = mixture.step(learner.state, learner.train, noise, model)[1].experts
    rows, experts = np.arange(len(filters))[:, None], np.arange(filters.shape[1])
    own = gradient[rows, experts, filters]
    signals = learner.signals[rows, clusters]
    norm = torch.linalg.vector_norm(gradient, dim=(2, 3))
    return np.asarray((-(own * signals).sum(-1) / norm).double().cpu())
