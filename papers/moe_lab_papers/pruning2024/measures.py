"""Measurements behind pruning2024's claims beyond the room's figures: statements, gradients, independence, sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float
from torch import Tensor

from moe_lab.core.findings import Finding
from moe_lab.pruning import theory
from moe_lab.pruning.checkpoints import FineTuned
from moe_lab.pruning.data import TokenTask
from moe_lab.pruning.initialization import PlantedStart, RandomStart, Start, random_weights
from moe_lab.pruning.model import TokenMoE
from moe_lab.pruning.recipes import run_of, trained, variable
from moe_lab.pruning.theory_evidence import evidence
from moe_lab.pruning.training import TokenTraining

LEMMAS = ("lemma 4.1", "lemma 4.2", "lemma 4.4", "theorem 4.3", "theorem 4.5")


def statements(
    start: str = "planted",
    trials: int = 8,
    seed: int = 0,
    *,
    which: Sequence[str] = LEMMAS,
    later_steps: int = 60,
    device: str = "cpu",
    **more: object,
) -> xr.Dataset:
    """Tests lemmas and theorems on several trials with expert-choice routing.

    Args:
      start: "planted", with routers as short as appendix C has them (norms up to .8, at most (log l)/2), or "random".
      trials: independent trainings.
      seed: of all streams.
      which: some of `LEMMAS`.
      later_steps: T', fine-tuning steps after pruning.
      device: where to compute.
      more: other parameters of `TokenMoE`, `TokenTask` and `Run`.

    Returns:
      state(statement, trial): 1 where it holds, 0 where it fails, -1 where its assumption is not met.
    """
    begun: str | Start = PlantedStart(others_norm=0.4) if start == "planted" else start
    run = run_of("statements", begun, "expert-choice", trials=trials, seed=seed, more={"device": device, **more})
    tuned, _ = trained(run)
    findings = [_findings(tuned, trial, which, later_steps) for trial in range(trials)]
    names = [finding.statement for finding in findings[0]]
    codes = {"holds": 1, "fails": 0, "assumption not met": -1}
    states = [[codes[finding.state] for finding in column] for column in findings]
    meaning = "1: holds, 0: fails, -1: assumption not met"
    return xr.Dataset(
        {"state": variable(("statement", "trial"), np.array(states).T, meaning)},
        {"statement": names, "trial": list(run.trial_numbers)},
    )


STARTS = ("random", "margin", "last")


def margins(
    trials: int, seed: int = 0, device: str = "cpu", *, starts: Sequence[str] = STARTS, **more: object
) -> xr.Dataset:
    """Counts unimportant experts that grow from a random start, and what of lemma 4.2's proof keeps them from it.

    Args:
      trials: independent trainings from each start.
      starts: some of `STARTS`.
      more: other parameters of `TokenMoE`, `TokenTask` and `Run`.

    Returns:
      unimportant(start, trial), the experts with p^(0) = O(1/d), and grew(start, trial), those of them that end with
      Delta > 1.5 log l. Starts: "random", as in section 5.1; "margin", with each router's components in the same order
      and all others C_p = 1/d away from that along o; "last", with o at the end of each router's order, so that p is 0.
    """
    counts = [_grown(start, trials, seed, device, more) for start in starts]
    words = {"unimportant": "begin unimportant", "grew": "begin unimportant and grow all the same"}
    return xr.Dataset(
        {
            name: variable(("start", "trial"), np.array([both[place] for both in counts]), f"experts that {meaning}")
            for place, (name, meaning) in enumerate(words.items())
        },
        {"start": list(starts), "trial": range(trials)},
    )


def _grown(
    start: str, trials: int, seed: int, device: str, more: Mapping[str, object]
) -> tuple[np.ndarray, np.ndarray]:
    """(unimportant experts, those of them that grow), (trial,) each."""
    run = run_of("statements", "random", "expert-choice", trials=trials, seed=seed, more={"device": device, **more})
    training = TokenTraining(run.replace(record_every=run.steps))
    for learner in training.learners:
        _arrange(learner.weights.routers, run.task.specific, start)
        learner.before.routers.copy_(learner.weights.routers)
    for _ in training.snapshots():
        pass
    tuned = FineTuned.of(training, run)
    facts = [evidence(tuned, trial) for trial in range(trials)]
    unimportant = np.array([one.is_unimportant() for one in facts])
    grew = np.array([one.after["norm_change"] > 1.5 * np.log(run.model.top) for one in facts])
    return unimportant.sum(1), (unimportant & grew).sum(1)


def _arrange(routers: Float[Tensor, "T k d"], specific: tuple[int, int], start: str) -> None:
    """Changes random routers in place as `margins` says."""
    half, patterns = routers.shape[1] // 2, routers.shape[2]
    for own, mine in zip(specific, (routers[:, :half], routers[:, half:]), strict=True):
        if start == "margin":
            mine += (mine - mine[..., own, None]).sign() / patterns
        if start == "last":
            mine[..., own] = mine.amin(2)


def independence(trials: int = 3, seed: int = 0, steps: int = 40, device: str = "cpu") -> xr.Dataset:
    """Measures how far fine-tuned experts end from where they otherwise would if a random half of the layer is pruned.

    Returns:
      gap(kind, trial): `theory.decoupling` in float64, for expert choice, for token choice, and for the true hinge
        loss.
    """
    kinds = {
        "expert-choice": ("expert-choice", {}),
        "token-choice": ("token-choice", {}),
        "hinge loss": ("expert-choice", {"loss": "hinge"}),
    }
    gaps = []
    for routing, more in kinds.values():
        given = {"precision": "float64", "device": device, "steps": 60, **more}
        begun = PlantedStart(others_neurons=0.02)
        run = run_of("independence", begun, routing, trials=trials, seed=seed, more=given)
        tuned, _ = trained(run)
        gaps.append(theory.decoupling(tuned, tuned.kept("random", 0.5), steps).cpu().numpy())
    meaning = "largest difference of a weight, over the largest weight"
    return xr.Dataset(
        {"gap": variable(("kind", "trial"), np.array(gaps), meaning)}, {"kind": list(kinds), "trial": range(trials)}
    )


def gradients(trials: int = 10, seed: int = 0) -> xr.Dataset:
    """Compares the derivatives of 1 - y f in equations 14 to 19 with automatic differentiation.

    Returns:
      router_gap(trial) and neuron_gap(trial): the largest difference over the largest component, of a sample of 12
        tokens drawn from 20 patterns and a layer of 4 experts with l = 5 and large random weights.
    """
    task, model, numbers = TokenTask(patterns=20, tokens=12), TokenMoE(experts=4, neurons=6), range(trials)
    samples = task.sample(1, trials=numbers, seed=seed, dtype=torch.float64)
    bases = task.vectors(numbers, seed)
    weights = random_weights(RandomStart(router_scale=1, neuron_scale=1), model, task.patterns, numbers, seed)
    gaps = [
        _gaps(samples.tokens[trial, 0], float(samples.labels[trial, 0]), bases[trial], routers, neurons, model.top)
        for trial, (routers, neurons) in enumerate(zip(*weights, strict=True))
    ]
    meaning = "largest difference between the printed and the true gradient, over its largest component"
    both = np.array(gaps)
    return xr.Dataset(
        {
            "router_gap": variable(("trial",), both[:, 0], meaning),
            "neuron_gap": variable(("trial",), both[:, 1], meaning),
        },
        {"trial": numbers},
    )


class VisionModel(NamedTuple):
    """A vision transformer with mixtures, as section 5.2 and appendix A describe the released ones.

    Attributes:
      encoders, mixtures: all encoders, and those with experts.
      width, hidden: d and m.
      patch, tokens: side of a patch in pixels, and n.
      classes: of the head.
      chosen: l, experts per token.
      members: of the ensemble; from the first mixture on each has its own tokens.
      experts: per encoder, of all members together.
    """

    encoders: int
    mixtures: int
    width: int
    hidden: int
    patch: int
    tokens: int
    classes: int
    chosen: int
    members: int = 1
    experts: int = 8

    @property
    def expert(self) -> int:
        """Parameters of an expert, which has the shape of a dense block's FFN."""
        return 2 * self.width * self.hidden + self.hidden + self.width

    @property
    def parameters(self) -> int:
        """Parameters: patch embedding, positions, class token, encoders, head."""
        d = self.width
        attention, norms = 4 * (d * d + d), 4 * d
        ends = self.patch**2 * 3 * d + d + d + self.tokens * d + 2 * d + (d + 1) * self.classes
        blocks = self.encoders * (attention + norms) + (self.encoders - self.mixtures) * self.expert
        return ends + blocks + self.mixtures * self.experts * (d + self.expert)

    def saved(self, experts: int) -> float:
        """Returns the share of the encoders' products saved with so many experts, if all get equally many tokens.

        Every second encoder is a mixture, including the last; after the first mixture each member has its own tokens.
        """
        later = 2 * (self.mixtures - 1)
        attention = 4 * self.width**2 + 2 * self.tokens * self.width
        ffn = 2 * self.width * self.hidden
        mixed = self.mixtures * self.members * self.chosen * ffn
        dense = (self.encoders - later - 1 + (self.mixtures - 1) * self.members) * ffn
        whole = (self.encoders - later + later * self.members) * attention + dense + mixed
        return experts / (self.mixtures * self.experts) * mixed / whole


V_MOE = VisionModel(12, 6, 768, 3072, 16, 65, 10, 2)
E3 = VisionModel(8, 2, 512, 2048, 32, 65, 10, 1, members=2)
PRUNED = {
    "cifar-10/tuned": (V_MOE, 6 * 6),
    "cifar-10/bare": (V_MOE, 4 * 5),
    "cifar-100": (V_MOE._replace(classes=100), 4 * 6),
    "imagenet": (V_MOE._replace(classes=1000, tokens=577), 20),
    "e3-cifar": (E3, 6 * 2),
}
"""Pruned experts: 6 of 8 in six encoders, 4 of 8 in five, 4 of 8 in six, 42 % of 48, and 3 of 4 in four groups."""
MADE_FOR = 18_291
"""Classes of the released models' pre-training head."""


def vision_models() -> xr.Dataset:
    """Computes parameters and FLOPs of the vision models from their sizes; nothing is trained or downloaded.

    Returns:
      over `pruned`, the keys of `PRUNED`: parameter_share, of the whole model, and operations_share, of an image if
      all experts get equally many tokens; and parameters(model, experts) of "v-moe" and "e3" with the 8 experts of
      section 5.2 and a head of 10 classes, and with 32 experts and a head of `MADE_FOR` classes.
    """
    shares = [experts * model.expert / model.parameters for model, experts in PRUNED.values()]
    operations = [model.saved(experts) for model, experts in PRUNED.values()]
    sizes = [[model.parameters, model._replace(experts=32, classes=MADE_FOR).parameters] for model in (V_MOE, E3)]
    return xr.Dataset(
        {
            "parameter_share": variable(("pruned",), shares, "share of all parameters that is pruned"),
            "operations_share": variable(("pruned",), operations, "share of an image's FLOPs that is pruned"),
            "parameters": variable(("model", "experts"), np.array(sizes, dtype=float), "numbers in the model"),
        },
        {"pruned": list(PRUNED), "model": ["v-moe", "e3"], "experts": [8, 32]},
    )


def _findings(tuned: FineTuned, trial: int, which: Sequence[str], later: int) -> list[Finding]:
    ways = {
        "lemma 4.1": lambda: theory.lemma_4_1(tuned, trial),
        "lemma 4.2": lambda: theory.lemma_4_2(tuned, trial),
        "lemma 4.4": lambda: theory.lemma_4_4(tuned, trial, steps=later),
        "theorem 4.3": lambda: (theory.theorem_4_3(tuned, trial),),
        "theorem 4.5": lambda: (theory.theorem_4_5(tuned, trial, steps=later),),
    }
    return [finding for name in which for finding in ways[name]()]


def _gaps(
    tokens: Tensor, label: float, basis: Tensor, routers: Tensor, neurons: Tensor, top: int
) -> tuple[float, float]:
    """Compares both gradients of one sample; routers (k, d) and neurons (k, d, m) are components along the patterns."""
    rows, columns = (routers @ basis).requires_grad_(), torch.einsum("sqm,qd->smd", neurons, basis).requires_grad_()
    x = basis[tokens]
    best = torch.topk(rows @ x.mT, top, dim=1)
    gates, predictions = best.values.softmax(1), torch.relu(x @ columns.mT).sum(2).gather(1, best.indices)
    signs = torch.ones(len(routers), dtype=x.dtype)
    signs[len(routers) // 2 :] = -1
    true = torch.autograd.grad(1 - label * (signs * (gates * predictions).sum(1)).sum(), (rows, columns))
    of_rows, of_neurons = torch.zeros_like(routers), torch.zeros_like(neurons)
    gates, sums = gates.detach(), neurons.clamp(min=0).sum(2)  # sigma_q
    for s, sign in enumerate(signs.tolist()):
        kept = tokens[best.indices[s]]
        for q in kept.unique().tolist():
            copies, others = kept == q, kept != q
            gate = gates[s, copies].sum()  # l_q G_q
            rest = (gates[s, others] * (sums[s, kept[others]] - sums[s, q])).sum()
            of_rows[s, q] = label * sign * gate * rest  # (14) to (16)
            of_neurons[s, q] = -label * sign * gate * (neurons[s, q] >= 0)  # (17) to (19)
    return _gap(of_rows, true[0] @ basis.mT), _gap(of_neurons, (true[1] @ basis.mT).mT)


def _gap(printed: Float[Tensor, "*shape"], true: Float[Tensor, "*shape"]) -> float:
    return float((printed - true).abs().max() / true.abs().max())
