"""Lemmas 4.1, 4.2, 4.4 and theorems 4.3, 4.5 of pruning2024, statement by statement, read off one fine-tuned trial.

"For every sample" is looked at on the test samples. A statement's assumption is not met where experts do not choose,
the gradient is another one, there is no expert that it speaks of, or such an expert's first router is longer than
appendix C allows; whether the conclusion is true all the same is told, too. What hides a constant, as (8), (9) and (11)
do, cannot be said to be broken and does not count here: `conditions` tells it.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Bool, Float

from moe_lab.findings import Finding, judged
from moe_lab.pruning.checkpoints import FineTuned
from moe_lab.pruning.select import Kept
from moe_lab.pruning.theory_conditions import asked_for, unproved
from moe_lab.pruning.theory_evidence import DEFAULT, Evidence, Reading, evidence, own_components, single

Experts = Bool[np.ndarray, " k"]


def lemma_4_1(tuned: FineTuned, trial: int = 0, *, reading: Reading = DEFAULT) -> tuple[Finding, ...]:
    """Important experts become more specialised: (i) p = 1, (ii) gates above 1/2, (iii) neurons, (iv) Delta.

    The Omega(l sqrt(d log l)) of (iii) is what T of (9) steps of eta_e/l make, but for constants. It is read as what
    these T steps make at the least: eta_e T / (2l), as o is in half of the samples, with a gate of 1/l or more.

    Args:
      trial: its place, counted from 0.
      reading: what stands for Omega(1) and for a constant fraction.

    Raises:
      ValueError: there is no such trial.
    """
    seen = evidence(tuned, trial)
    who = seen.is_important(reading)
    why = _silent(seen, who)
    if not who.any():
        why = why or f"No expert has p^(0) >= {reading.important:g}: there is no important one."
    run = seen.run
    size = run.model.learning_rate * run.steps / (2 * run.model.top)
    paper = run.model.top * math.sqrt(run.task.patterns * math.log(run.model.top))
    bar = 1.5 * math.log(run.model.top)
    change = seen.after["norm_change"][who].min(initial=math.inf)
    return (
        *_specialised("lemma 4.1", f"{int(who.sum())} important", seen, who, why),
        _neurons("lemma 4.1", seen, seen.own_after[who], size, f"l sqrt(d log l) is {paper:.3g}", why, reading),
        _told(
            "lemma 4.1, (iv) Delta",
            seen,
            why,
            who.any() and change > bar,
            f"It is {change:.3f} at the least, to be above 1.5 log l = {bar:.3f}." if who.any() else "",
            smallest=float(change),
            asked=bar,
        ),
    )


def lemma_4_2(tuned: FineTuned, trial: int = 0, *, reading: Reading = DEFAULT) -> tuple[Finding, ...]:
    """Unimportant experts stay unimportant: (i) p stays O(1/d), (ii) Delta stays small.

    Arguments and errors are those of `lemma_4_1`.
    """
    seen = evidence(tuned, trial)
    who = seen.is_unimportant(reading)
    why = _silent(seen, who)
    if not who.any():
        why = why or "There is no unimportant expert."
    d, top = seen.run.task.patterns, seen.run.model.top
    small, log2 = reading.unimportant / d, math.log(top) ** 2
    bound = reading.constant * (log2 / math.sqrt(d) + top**4 * log2 / d**2)
    share, change = (seen.after[name][who].max(initial=-math.inf) for name in ("proficiency", "norm_change"))
    return (
        _told(
            "lemma 4.2, (i) p",
            seen,
            why,
            share <= small,
            f"{int(who.sum())} unimportant: p^(T) is {share:.4f} at the most, to be O(1/d): {small:.3g}."
            if who.any()
            else "",
            largest=float(share),
            asked=small,
        ),
        _told(
            "lemma 4.2, (ii) Delta",
            seen,
            why,
            change <= bound,
            f"It is {change:.4f} at the most, to be O(log^2 l / sqrt(d)) + O(l^4 log^2 l / d^2): {bound:.3g}."
            if who.any()
            else "",
            largest=float(change),
            asked=bound,
        ),
    )


def theorem_4_3(
    tuned: FineTuned, trial: int = 0, *, criterion: str = "router-norm-change", reading: Reading = DEFAULT
) -> Finding:
    """Up to rho = gamma, every test sample stays right, y f > 0, without fine-tuning after pruning.

    gamma is the share of unimportant experts in S_1 or S_2, whichever has the smaller. Every number of experts up to it
    is tried.

    Args:
      trial: its place, counted from 0.
      criterion: what is pruned by; the theorem speaks of the change of the router's norm.
      reading: what stands for Omega(1) and O(1/d).

    Raises:
      ValueError: there is no such trial or criterion.
    """
    seen = evidence(tuned, trial)
    gamma, half = seen.gamma(reading), seen.run.model.experts // 2
    most = min(half - 1, math.floor(gamma * half + 1e-9))
    return _pruned("theorem 4.3", single(tuned, trial), seen, most, 0, f"gamma = {gamma:g}", criterion, reading)


def lemma_4_4(
    tuned: FineTuned, trial: int = 0, *, steps: int | None = None, reading: Reading = DEFAULT
) -> tuple[Finding, ...]:
    """Experts whose norm grew by more than 1.5 log l: (i) p = 1, (ii) gates above 1/2, and later (iii) their neurons.

    For (iii) all other experts go, but the best one of a group that has no such expert. The Omega(k l^2 sqrt(log l)) is
    what T' of (11) steps of eta_e make, up to constants. It is read as what these T' steps make at the least:
    eta_e T' / 4, as o is in half of the samples, with a gate above 1/2.

    Args:
      trial: its place, counted from 0.
      steps: T', fine-tuning steps after pruning; as many as before when None.
      reading: what stands for a constant fraction.

    Raises:
      ValueError: there is no such trial, or steps is negative.
    """
    seen = evidence(tuned, trial)
    run, bar = seen.run, 1.5 * math.log(seen.run.model.top)
    steps = run.steps if steps is None else steps
    who = seen.after["norm_change"] > bar
    why = _silent(seen, who)
    if not who.any():
        why = why or f"No expert has Delta > 1.5 log l = {bar:.3g}."
    weights = single(tuned, trial).tuned(_kept_with(seen, who), steps)
    later = own_components(weights, run)[who[weights.numbers[0].cpu().numpy()]]
    size = run.model.learning_rate * steps / 4
    paper = asked_for(run).later_steps * run.model.learning_rate
    return (
        *_specialised("lemma 4.4", f"{int(who.sum())} with Delta > {bar:.3g}", seen, who, why),
        _neurons("lemma 4.4", seen, later, size, f"k l^2 sqrt(log l) is {paper:.3g}", why, reading),
    )


def theorem_4_5(
    tuned: FineTuned,
    trial: int = 0,
    *,
    steps: int | None = None,
    criterion: str = "router-norm-change",
    reading: Reading = DEFAULT,
) -> Finding:
    """With fine-tuning after pruning, every test sample is right up to rho = 1 - O(1/k): one expert of each sign left.

    Every number of experts is tried. Arguments and errors are those of `theorem_4_3`, steps are those of `lemma_4_4`.
    """
    seen = evidence(tuned, trial)
    steps, half = seen.run.steps if steps is None else steps, seen.run.model.experts // 2
    what = f"1 - 2/k = {1 - 1 / half:g} after {steps:,} steps"
    return _pruned("theorem 4.5", single(tuned, trial), seen, half - 1, steps, what, criterion, reading)


# --- what they have in common ---------------------------------------------------------------------------------------


def _silent(seen: Evidence, who: Experts) -> str:
    """Why the paper says nothing of these experts; empty where it does."""
    if seen.run.model.top == 1:
        return "With l=1 every gate is 1, log l is 0 and no router moves."
    norm, bound = seen.before["router_norm"][who].max(initial=0), math.log(seen.run.model.top) / 2
    if norm > bound and not unproved(seen.run):
        return f"First routers of norm up to {norm:.3g}, more than (log l)/2 = {bound:.3g} (appendix C)."
    return unproved(seen.run)


def _told(statement: str, seen: Evidence, why: str, true: bool | np.bool_, sentence: str, **numbers: float) -> Finding:
    """A conclusion. What was measured is told where nothing is promised, too."""
    if seen.diverged:
        return Finding(statement, "fails", "The trial diverged.")
    verdict = ("True all the same." if true else "Not so here.") if why and sentence else ""
    text = " ".join(part for part in (why, sentence, verdict) if part)
    return Finding(statement, judged(not why, bool(true)), text, numbers)


def _specialised(lemma: str, group: str, seen: Evidence, who: Experts, why: str) -> tuple[Finding, Finding]:
    """(i) and (ii) of lemmas 4.1 and 4.4."""
    before, after = (one["proficiency"][who].min(initial=math.inf) for one in (seen.before, seen.after))
    gate, samples = seen.after["least_gate"][who].min(initial=math.inf), int(seen.samples.min())
    some = bool(who.any())
    p = f"{group}: p goes from {before:.3f} to {after:.3f} at the least, to be 1." if some else ""
    gates = f"The smallest on o in {samples} or more samples of a class is {gate:.3f}, to be above .5." if some else ""
    return (
        _told(f"{lemma}, (i) p", seen, why, some and after == 1, p, smallest=float(after)),
        _told(f"{lemma}, (ii) gates", seen, why, some and gate > 0.5, gates, smallest=float(gate)),
    )


def _neurons(
    lemma: str,
    seen: Evidence,
    components: Float[np.ndarray, "s m"],
    size: float,
    paper: str,
    why: str,
    reading: Reading,
) -> Finding:
    """(iii) of lemmas 4.1 and 4.4."""
    if not len(components):
        return _told(f"{lemma}, (iii) neurons", seen, why, False, "")
    share = float((components >= size).mean(1).min())
    sentence = (
        f"At least {share:.0%} of each expert's neurons have a component of {size:.3g} or more along o, to be "
        f"{reading.fraction:.0%}. The largest is {components.max():.3g} ({paper})."
    )
    numbers = {"share": share, "size": size, "largest": float(components.max())}
    return _told(f"{lemma}, (iii) neurons", seen, why, share >= reading.fraction, sentence, **numbers)


def _kept_with(seen: Evidence, who: Experts) -> Kept:
    """The experts of a mask, and the one with the largest Delta of a group that has none of them."""
    kept = who.copy()
    for half in seen.halves:
        if not kept[half].any():
            kept[half][seen.after["norm_change"][half].argmax()] = True  # a slice is a view
    return torch.as_tensor(kept)[None]


def _pruned(
    theorem: str,
    alone: FineTuned,
    seen: Evidence,
    most: int,
    steps: int,
    what: str,
    criterion: str,
    reading: Reading,
) -> Finding:
    """Theorems 4.3 and 4.5: the worst accuracy over all numbers of experts pruned from each group."""
    why = _silent(seen, np.ones(seen.run.model.experts, dtype=bool))
    if seen.run.model.top == 1 or seen.diverged:
        return _told(theorem, seen, why, False, "")
    accuracy = [float(alone.accuracy(alone.kept(criterion, (count, count)), steps)) for count in range(most + 1)]
    half, worst = seen.run.model.experts // 2, int(np.argmin(accuracy))
    empty = [name for name, count in zip(("S_1", "S_2"), seen.per_class(reading), strict=True) if not count]
    why = why or (f"{' and '.join(empty)} without an important expert (appendix C)." if empty else "")
    sentence = (
        f"For rho from 0 to {what}, the worst accuracy is {accuracy[worst]:.4f}"
        + (f" (rho = {worst / half:g})" if accuracy[worst] < 1 else "")
        + ", to be 1."
    )
    return _told(theorem, seen, why, accuracy[worst] == 1, sentence, worst=accuracy[worst], gamma=seen.gamma(reading))
