"""The assumptions of pruning2024's lemmas and theorems: (8), (9), (11), section 4.2 and appendix C, one by one."""

from __future__ import annotations

import math
from typing import NamedTuple

from moe_lab.core.findings import Finding, judged
from moe_lab.pruning.checkpoints import FineTuned
from moe_lab.pruning.run import TokenRun
from moe_lab.pruning.theory_evidence import DEFAULT, Evidence, Experts, Reading, evidence


class RequiredSizes(NamedTuple):
    """Sizes that (8), (9) and (11) require, with every hidden constant taken as 1.

    Attributes:
      router_learning_rate: at most eta_e / (m d l^2).
      batch: at least l^2 d^2.
      steps: at least l^2 sqrt(d log l) / eta_e.
      later_steps: at least k l^2 sqrt(log l) / eta_e. Printed with eta_e under the root; lemma H.1, the full version,
        divides by eta_e itself.
    """

    router_learning_rate: float
    batch: float
    steps: float
    later_steps: float


def required_sizes(run: TokenRun) -> RequiredSizes:
    """Computes the sizes that (8), (9) and (11) require of a run.

    (8) bounds the routers' rate from above only, and then lemma 4.1 cannot hold as printed: with a rate of 0, which
    (8) and (9) allow, routers never move and Delta is 0. Its proof needs a rate of this order, not only one below it.
    The full versions (lemmas D.1, F.1, H.1) require C_p eta_e / (m d l^2 C_2^2) with C_p of the order of 1/d, a
    factor d below (8); the proof of F.1 uses (8).
    """
    model, d = run.model, run.task.patterns
    l2, rate, log = model.top**2, model.learning_rate, math.log(model.top)
    return RequiredSizes(
        router_learning_rate=rate / (model.neurons * d * l2),
        batch=float(l2 * d**2),
        steps=l2 * math.sqrt(d * log) / rate if rate else math.inf,
        later_steps=model.experts * l2 * math.sqrt(log) / rate if rate else math.inf,
    )


def conditions(
    tuned: FineTuned, trial: int = 0, *, later_steps: int | None = None, reading: Reading = DEFAULT
) -> tuple[Finding, ...]:
    """Checks the assumptions of the lemmas and theorems; each is "holds" or "assumption not met".

    The assumptions are sufficient. The runs that show the conclusions best are far from (8) and (9).

    Args:
      trial: its index, from 0.
      later_steps: steps of fine-tuning after pruning, compared with (11); None if there are none.
      reading: values of the hidden constants.

    Raises:
      ValueError: there is no such trial.
    """
    facts = evidence(tuned, trial)
    return (
        *_method(facts),
        *_sizes(facts, later_steps, reading),
        *_data(facts, reading),
        *_checkpoint(facts, reading),
    )


def _condition(name: str, met: bool, sentence: str, **numbers: float) -> Finding:
    return Finding(f"condition, {name}", judged(met, True), sentence, numbers)


def unproved(run: TokenRun) -> str:
    """Explains why the paper proves nothing about a run; empty if it does."""
    if run.model.routing != "expert-choice":
        return "The proofs are for expert-choice routing."
    if run.model.loss != "linear":
        return "The proofs use the gradient of 1 - y f."
    return ""


def _method(facts: Evidence) -> tuple[Finding, ...]:
    model, reason = facts.run.model, unproved(facts.run)
    gradient = {"linear": "1 - y f", "hinge": "the hinge loss"}[model.loss]
    return (_condition("method", not reason, f"{model.routing}, gradient of {gradient}. {reason}".strip()),)


def _sizes(facts: Evidence, later_steps: int | None, reading: Reading) -> tuple[Finding, ...]:
    run, required, c = facts.run, required_sizes(facts.run), reading.constant
    rate, root = run.model.router_learning_rate, math.sqrt(run.task.patterns)
    findings = [
        _condition(
            "(8), routers' rate",
            rate <= c * required.router_learning_rate,
            f"eta_r = {rate:g}; required: at most of the order of {required.router_learning_rate:.3g}.",
            value=rate,
            required=required.router_learning_rate,
        ),
        _condition(
            "(8), batch",
            run.batch >= c * required.batch,
            f"B = {run.batch:,}; required: at least of the order of l^2 d^2 = {required.batch:,.0f}.",
            value=run.batch,
            required=required.batch,
        ),
        _condition(
            "(9), steps",
            run.steps >= c * required.steps,
            f"T = {run.steps:,}; required: at least of the order of {required.steps:,.0f}.",
            value=run.steps,
            required=required.steps,
        ),
    ]
    if later_steps is not None:
        findings.append(
            _condition(
                "(11), later steps",
                later_steps >= c * required.later_steps,
                f"T' = {later_steps:,}; required: at least of the order of {required.later_steps:,.0f}.",
                value=later_steps,
                required=required.later_steps,
            )
        )
    experts = _condition(
        "experts",
        run.model.experts <= c * root,
        f"k = {run.model.experts} is {run.model.experts / root:.2g} sqrt(d); required: O(sqrt d).",
        value=run.model.experts,
        required=root,
    )
    return (*findings, experts)


def _data(facts: Evidence, reading: Reading) -> tuple[Finding, ...]:
    task = facts.run.task
    d, n = task.patterns, task.tokens
    probability = 1 - (1 - float(task.frequencies.max())) ** (n - 1)
    return (
        _condition(
            "patterns",
            d >= reading.constant * n,
            f"d = {d} for n = {n}; required: d = Omega(n).",
            value=d,
            required=n,
        ),
        _condition(
            "irrelevant patterns",
            probability <= reading.constant / d,
            f"The most frequent one occurs in a sample with probability {probability:.3g}; required: O(1/d), 1/d = "
            f"{1 / d:.3g}. With n tokens sampled from d patterns it is near n/d.",
            value=probability,
            required=1 / d,
        ),
    )


def _checkpoint(facts: Evidence, reading: Reading) -> tuple[Finding, ...]:
    """Checks the assumptions on the pre-trained model (appendix C)."""
    d, important, unimportant = facts.run.task.patterns, facts.is_important(reading), facts.is_unimportant(reading)
    findings = [_important_experts(facts, reading), _first_routers(facts, important)]
    if important.any():
        margin = float(facts.margin[important].min())
        active = float((facts.own_before[important] >= 0).mean(1).min())
        findings += [
            _condition(
                "margin",
                margin >= reading.constant / d,
                f"Important routers separate o from every irrelevant pattern by C_p = {margin:.3g} or more; required: "
                f"of the order of 1/d = {1 / d:.3g}.",
                value=margin,
                required=1 / d,
            ),
            _condition(
                "active neurons",
                active >= reading.fraction,
                f"At least {active:.0%} of an important expert's neurons are active on o; required: a constant "
                f"fraction, taken as {reading.fraction:.0%}.",
                value=active,
            ),
        ]
    if unimportant.any():
        margin = float(facts.margin[unimportant].min())
        findings.append(
            _condition(
                "margin of the others",
                margin >= reading.constant / d,
                f"Unimportant routers: C_p = {margin:.3g}. The proof of lemma 4.2 uses that it is of the order of 1/d "
                "here too, which is not among the paper's assumptions.",
                value=margin,
                required=1 / d,
            )
        )
    return tuple(findings)


def _important_experts(facts: Evidence, reading: Reading) -> Finding:
    important, unimportant = facts.is_important(reading), facts.is_unimportant(reading)
    first, second = facts.per_class(reading)
    return _condition(
        "important experts",
        min(first, second) >= 1,
        f"{first} of S_1 and {second} of S_2 have p^(0) >= {reading.important:g}; required: at least one each. "
        f"{int(unimportant.sum())} of all {len(important)} are unimportant, "
        f"{int((~important & ~unimportant).sum())} neither.",
        smallest=min(first, second),
    )


def _first_routers(facts: Evidence, important: Experts) -> Finding:
    norms, bound = facts.before["router_norm"], math.log(facts.run.model.top) / 2
    return _condition(
        "first routers",
        bool((norms <= bound).all()),
        f"Norms up to {norms.max():.3g}; required, without loss of generality: at most (log l)/2 = {bound:.3g}."
        + (f" Important experts: up to {norms[important].max():.3g}." if important.any() else ""),
        largest=float(norms.max()),
        important=float(norms[important].max(initial=0)),
        required=bound,
    )
