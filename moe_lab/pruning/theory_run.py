"""Lemmas 4.1, 4.2, 4.4 and theorems 4.3, 4.5 of pruning2024, each statement checked on one fine-tuned trial.

"For every sample" is checked on the test samples. The assumption of a statement is not met if routing is not
expert-choice, the gradient is another one, the statement applies to no expert, or the first router of such an expert
has a larger norm than appendix C allows; the finding then still reports whether the conclusion is true. Assumptions
with hidden constants, (8), (9) and (11), cannot be refuted and are not considered here: see `conditions`.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float

from moe_lab.core.findings import Finding, judged
from moe_lab.pruning.checkpoints import FineTuned
from moe_lab.pruning.select import Kept
from moe_lab.pruning.theory_conditions import required_sizes, unproved
from moe_lab.pruning.theory_evidence import DEFAULT, Evidence, Experts, Reading, evidence, one_trial, own_components


def lemma_4_1(tuned: FineTuned, trial: int = 0, *, reading: Reading = DEFAULT) -> tuple[Finding, ...]:
    """Checks that important experts specialise: (i) p = 1, (ii) gates above 1/2, (iii) neurons, (iv) Delta.

    The Omega(l sqrt(d log l)) of (iii) is T of (9) times eta_e/l, up to constants. It is taken as the least growth in
    these T steps, eta_e T / (2l), because o is in half of the samples with a gate of 1/l or more.

    Args:
      trial: its index, from 0.
      reading: values of Omega(1) and of the constant fraction.

    Raises:
      ValueError: there is no such trial.
    """
    facts = evidence(tuned, trial)
    experts = facts.is_important(reading)
    reason = _unmet(facts, experts)
    if not experts.any():
        reason = reason or f"No expert has p^(0) >= {reading.important:g}: there is no important expert."
    run = facts.run
    size = run.model.learning_rate * run.steps / (2 * run.model.top)
    paper = run.model.top * math.sqrt(run.task.patterns * math.log(run.model.top))
    bar = 1.5 * math.log(run.model.top)
    change = facts.after["norm_change"][experts].min(initial=math.inf)
    return (
        *_specialised("lemma 4.1", f"{int(experts.sum())} important", facts, experts, reason),
        _neurons(
            "lemma 4.1", facts, facts.own_after[experts], size, f"l sqrt(d log l) is {paper:.3g}", reason, reading
        ),
        _finding(
            "lemma 4.1, (iv) Delta",
            facts,
            reason,
            experts.any() and change > bar,
            f"The smallest is {change:.3f}; required: above 1.5 log l = {bar:.3f}." if experts.any() else "",
            smallest=float(change),
            required=bar,
        ),
    )


def lemma_4_2(tuned: FineTuned, trial: int = 0, *, reading: Reading = DEFAULT) -> tuple[Finding, ...]:
    """Checks that unimportant experts stay unimportant: (i) p stays O(1/d), (ii) Delta stays small.

    Arguments and errors are those of `lemma_4_1`.
    """
    facts = evidence(tuned, trial)
    experts = facts.is_unimportant(reading)
    reason = _unmet(facts, experts)
    if not experts.any():
        reason = reason or "There is no unimportant expert."
    d, top = facts.run.task.patterns, facts.run.model.top
    small, log2 = reading.unimportant / d, math.log(top) ** 2
    bound = reading.constant * (log2 / math.sqrt(d) + top**4 * log2 / d**2)
    share, change = (facts.after[name][experts].max(initial=-math.inf) for name in ("proficiency", "norm_change"))
    return (
        _finding(
            "lemma 4.2, (i) p",
            facts,
            reason,
            share <= small,
            f"{int(experts.sum())} unimportant: p^(T) is at most {share:.4f}; required: O(1/d), {small:.3g}."
            if experts.any()
            else "",
            largest=float(share),
            required=small,
        ),
        _finding(
            "lemma 4.2, (ii) Delta",
            facts,
            reason,
            change <= bound,
            f"It is at most {change:.4f}; required: O(log^2 l / sqrt(d)) + O(l^4 log^2 l / d^2), {bound:.3g}."
            if experts.any()
            else "",
            largest=float(change),
            required=bound,
        ),
    )


def theorem_4_3(
    tuned: FineTuned, trial: int = 0, *, criterion: str = "router-norm-change", reading: Reading = DEFAULT
) -> Finding:
    """Checks that up to rho = gamma every test sample stays correct, y f > 0, without fine-tuning after pruning.

    gamma is the share of unimportant experts in S_1 or S_2, whichever is smaller. All numbers of pruned experts up to
    it are tested.

    Args:
      trial: its index, from 0.
      criterion: pruning criterion; the theorem is about the change of the router's norm.
      reading: values of Omega(1) and O(1/d).

    Raises:
      ValueError: there is no such trial or criterion.
    """
    facts = evidence(tuned, trial)
    gamma, half = facts.gamma(reading), facts.run.model.experts // 2
    most = min(half - 1, math.floor(gamma * half + 1e-9))
    return _pruned("theorem 4.3", one_trial(tuned, trial), facts, most, 0, f"gamma = {gamma:g}", criterion, reading)


def lemma_4_4(
    tuned: FineTuned, trial: int = 0, *, steps: int | None = None, reading: Reading = DEFAULT
) -> tuple[Finding, ...]:
    """Checks experts with Delta above 1.5 log l: (i) p = 1, (ii) gates above 1/2, and later (iii) neurons.

    For (iii) all other experts are pruned, except the best one of a group without such experts. The
    Omega(k l^2 sqrt(log l)) is T' of (11) times eta_e, up to constants. It is taken as the least growth in these T'
    steps, eta_e T' / 4, because o is in half of the samples with a gate above 1/2.

    Args:
      trial: its index, from 0.
      steps: T', fine-tuning steps after pruning; as many as before if None.
      reading: value of the constant fraction.

    Raises:
      ValueError: there is no such trial, or steps is negative.
    """
    facts = evidence(tuned, trial)
    run, bar = facts.run, 1.5 * math.log(facts.run.model.top)
    steps = run.steps if steps is None else steps
    experts = facts.after["norm_change"] > bar
    reason = _unmet(facts, experts)
    if not experts.any():
        reason = reason or f"No expert has Delta > 1.5 log l = {bar:.3g}."
    weights = one_trial(tuned, trial).tuned(_kept_with(facts, experts), steps)
    later = own_components(weights, run)[experts[weights.numbers[0].cpu().numpy()]]
    size = run.model.learning_rate * steps / 4
    paper = required_sizes(run).later_steps * run.model.learning_rate
    return (
        *_specialised("lemma 4.4", f"{int(experts.sum())} with Delta > {bar:.3g}", facts, experts, reason),
        _neurons("lemma 4.4", facts, later, size, f"k l^2 sqrt(log l) is {paper:.3g}", reason, reading),
    )


def theorem_4_5(
    tuned: FineTuned,
    trial: int = 0,
    *,
    steps: int | None = None,
    criterion: str = "router-norm-change",
    reading: Reading = DEFAULT,
) -> Finding:
    """Checks that with later fine-tuning every test sample is correct up to rho = 1 - O(1/k), one expert of each sign.

    All numbers of pruned experts are tested. Arguments and errors are those of `theorem_4_3`, steps of `lemma_4_4`.
    """
    facts = evidence(tuned, trial)
    steps, half = facts.run.steps if steps is None else steps, facts.run.model.experts // 2
    what = f"1 - 2/k = {1 - 1 / half:g} after {steps:,} steps"
    return _pruned("theorem 4.5", one_trial(tuned, trial), facts, half - 1, steps, what, criterion, reading)


# --- shared parts ---------------------------------------------------------------------------------------------------


def _unmet(facts: Evidence, experts: Experts) -> str:
    """Explains why the paper states nothing about these experts; empty if it does."""
    if facts.run.model.top == 1:
        return "With l=1 every gate is 1, log l is 0 and no router moves."
    norm, bound = facts.before["router_norm"][experts].max(initial=0), math.log(facts.run.model.top) / 2
    if norm > bound and not unproved(facts.run):
        return f"First routers have norms up to {norm:.3g}, more than (log l)/2 = {bound:.3g} (appendix C)."
    return unproved(facts.run)


def _finding(
    statement: str, facts: Evidence, reason: str, true: bool | np.bool_, sentence: str, **numbers: float
) -> Finding:
    """Makes the finding of a conclusion, with the measured numbers even if its assumption is not met."""
    if facts.diverged:
        return Finding(statement, "fails", "The trial diverged.")
    verdict = ""
    if reason and sentence:
        verdict = "The conclusion is true nevertheless." if true else "The conclusion is false here."
    text = " ".join(part for part in (reason, sentence, verdict) if part)
    return Finding(statement, judged(not reason, bool(true)), text, numbers)


def _specialised(lemma: str, group: str, facts: Evidence, experts: Experts, reason: str) -> tuple[Finding, Finding]:
    """Checks (i) and (ii) of lemmas 4.1 and 4.4."""
    before, after = (values["proficiency"][experts].min(initial=math.inf) for values in (facts.before, facts.after))
    gate, samples = facts.after["least_gate"][experts].min(initial=math.inf), int(facts.samples.min())
    some = bool(experts.any())
    p = f"{group}: the smallest p goes from {before:.3f} to {after:.3f}; required: 1." if some else ""
    gates = (
        f"The smallest on o in at least {samples} samples of a class is {gate:.3f}; required: above .5." if some else ""
    )
    return (
        _finding(f"{lemma}, (i) p", facts, reason, some and after == 1, p, smallest=float(after)),
        _finding(f"{lemma}, (ii) gates", facts, reason, some and gate > 0.5, gates, smallest=float(gate)),
    )


def _neurons(
    lemma: str,
    facts: Evidence,
    components: Float[np.ndarray, "s m"],
    size: float,
    paper: str,
    reason: str,
    reading: Reading,
) -> Finding:
    """Checks (iii) of lemmas 4.1 and 4.4."""
    if not len(components):
        return _finding(f"{lemma}, (iii) neurons", facts, reason, False, "")
    share = float((components >= size).mean(1).min())
    sentence = (
        f"At least {share:.0%} of each expert's neurons have a component of {size:.3g} or more along o; required: "
        f"{reading.fraction:.0%}. The largest is {components.max():.3g} ({paper})."
    )
    numbers = {"share": share, "size": size, "largest": float(components.max())}
    return _finding(f"{lemma}, (iii) neurons", facts, reason, share >= reading.fraction, sentence, **numbers)


def _kept_with(facts: Evidence, experts: Experts) -> Kept:
    """Returns the experts of a mask, plus the one with the largest Delta of any group without them."""
    kept = experts.copy()
    for half in facts.halves:
        if not kept[half].any():
            kept[half][facts.after["norm_change"][half].argmax()] = True  # a slice is a view
    return torch.as_tensor(kept)[None]


def _pruned(
    theorem: str,
    alone: FineTuned,
    facts: Evidence,
    most: int,
    steps: int,
    what: str,
    criterion: str,
    reading: Reading,
) -> Finding:
    """Checks theorems 4.3 and 4.5 by the worst accuracy over all numbers of experts pruned from each group."""
    reason = _unmet(facts, np.ones(facts.run.model.experts, dtype=bool))
    if facts.run.model.top == 1 or facts.diverged:
        return _finding(theorem, facts, reason, False, "")
    accuracy = [float(alone.accuracy(alone.kept(criterion, (count, count)), steps)) for count in range(most + 1)]
    half, worst = facts.run.model.experts // 2, int(np.argmin(accuracy))
    empty = [name for name, count in zip(("S_1", "S_2"), facts.per_class(reading), strict=True) if not count]
    reason = reason or (f"{' and '.join(empty)} without an important expert (appendix C)." if empty else "")
    sentence = (
        f"For rho from 0 to {what}, the worst accuracy is {accuracy[worst]:.4f}"
        + (f" (rho = {worst / half:g})" if accuracy[worst] < 1 else "")
        + "; required: 1."
    )
    return _finding(
        theorem, facts, reason, accuracy[worst] == 1, sentence, worst=accuracy[worst], gamma=facts.gamma(reading)
    )
