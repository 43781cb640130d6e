"""What the lemmas and theorems of pruning2024 ask for: (8), (9), (11), section 4.2 and appendix C, one by one."""

from __future__ import annotations

import math
from typing import NamedTuple

from moe_lab.findings import Finding, judged
from moe_lab.pruning.checkpoints import FineTuned
from moe_lab.pruning.run import Run
from moe_lab.pruning.theory_evidence import DEFAULT, Evidence, Reading, evidence


class AskedFor(NamedTuple):
    """Sizes that (8), (9) and (11) ask for, with every hidden constant read as 1.

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


def asked_for(run: Run) -> AskedFor:
    """What (8), (9) and (11) ask of a run.

    (8) bounds the routers' rate from above only, and then lemma 4.1 cannot hold as printed: with a rate of 0, which
    (8) and (9) allow, routers never move and Delta is 0. Its proof needs a rate of this size, not one below it.
    The full versions (lemmas D.1, F.1, H.1) ask for C_p eta_e / (m d l^2 C_2^2) with C_p of the size of 1/d, one d more
    than (8); the proof of F.1 uses (8).
    """
    model, d = run.model, run.task.patterns
    l2, rate, log = model.top**2, model.learning_rate, math.log(model.top)
    return AskedFor(
        router_learning_rate=rate / (model.neurons * d * l2),
        batch=float(l2 * d**2),
        steps=l2 * math.sqrt(d * log) / rate if rate else math.inf,
        later_steps=model.experts * l2 * math.sqrt(log) / rate if rate else math.inf,
    )


def conditions(
    tuned: FineTuned, trial: int = 0, *, later_steps: int | None = None, reading: Reading = DEFAULT
) -> tuple[Finding, ...]:
    """What the paper asks for before it promises anything, each told as "holds" or "assumption not met".

    A theorem says what suffices. The runs that show its conclusions best are far from (8) and (9).

    Args:
      trial: its place, counted from 0.
      later_steps: steps of fine-tuning after pruning, to be held against (11); None: there were none.
      reading: what stands for the hidden constants.

    Raises:
      ValueError: there is no such trial.
    """
    seen = evidence(tuned, trial)
    return (*_method(seen), *_sizes(seen, later_steps, reading), *_data(seen, reading), *_checkpoint(seen, reading))


def told(name: str, met: bool, sentence: str, **numbers: float) -> Finding:
    """A condition, which is met or not."""
    return Finding(f"condition, {name}", judged(met, True), sentence, numbers)


def unproved(run: Run) -> str:
    """Why nothing is promised of a run at all; empty if something is."""
    if run.model.routing != "expert-choice":
        return "The proofs are for expert-choice routing."
    if run.model.loss != "linear":
        return "The proofs take the gradient of 1 - y f."
    return ""


def _method(seen: Evidence) -> tuple[Finding, ...]:
    model = seen.run.model
    gradient = {"linear": "1 - y f", "hinge": "the hinge loss"}[model.loss]
    return (
        told(
            "method", not unproved(seen.run), f"{model.routing}, gradient of {gradient}. {unproved(seen.run)}".strip()
        ),
    )


def _sizes(seen: Evidence, later: int | None, reading: Reading) -> tuple[Finding, ...]:
    run, asked, c = seen.run, asked_for(seen.run), reading.constant
    rate, root = run.model.router_learning_rate, math.sqrt(run.task.patterns)
    found = [
        told(
            "(8), routers' rate",
            rate <= c * asked.router_learning_rate,
            f"eta_r = {rate:g}; asked for: at most of the order of {asked.router_learning_rate:.3g}.",
            value=rate,
            asked=asked.router_learning_rate,
        ),
        told(
            "(8), batch",
            run.batch >= c * asked.batch,
            f"B = {run.batch:,}; asked for: at least of the order of l^2 d^2 = {asked.batch:,.0f}.",
            value=run.batch,
            asked=asked.batch,
        ),
        told(
            "(9), steps",
            run.steps >= c * asked.steps,
            f"T = {run.steps:,}; asked for: at least of the order of {asked.steps:,.0f}.",
            value=run.steps,
            asked=asked.steps,
        ),
        told(
            "experts",
            run.model.experts <= c * root,
            f"k = {run.model.experts} is {run.model.experts / root:.2g} sqrt(d); asked for: O(sqrt d).",
            value=run.model.experts,
            asked=root,
        ),
    ]
    if later is not None:
        sentence = f"T' = {later:,}; asked for: at least of the order of {asked.later_steps:,.0f}."
        met = later >= c * asked.later_steps
        found.insert(3, told("(11), later steps", met, sentence, value=later, asked=asked.later_steps))
    return tuple(found)


def _data(seen: Evidence, reading: Reading) -> tuple[Finding, ...]:
    task = seen.run.task
    d, n = task.patterns, task.tokens
    often = 1 - (1 - float(task.frequencies.max())) ** (n - 1)
    return (
        told("patterns", d >= reading.constant * n, f"d = {d} for n = {n}; asked for: d = Omega(n).", value=d, asked=n),
        told(
            "irrelevant patterns",
            often <= reading.constant / d,
            f"The most frequent one occurs in a sample with probability {often:.3g}; asked for: O(1/d), 1/d = "
            f"{1 / d:.3g}. With n tokens drawn from d patterns it is near n/d.",
            value=often,
            asked=1 / d,
        ),
    )


def _checkpoint(seen: Evidence, reading: Reading) -> tuple[Finding, ...]:
    """The assumptions on the pre-trained model (appendix C)."""
    run, important, unimportant = seen.run, seen.is_important(reading), seen.is_unimportant(reading)
    d, k = run.task.patterns, run.model.experts
    first, second = seen.per_class(reading)
    norms, bound = seen.before["router_norm"], math.log(run.model.top) / 2
    found = [
        told(
            "important experts",
            min(first, second) >= 1,
            f"{first} of S_1 and {second} of S_2 have p^(0) >= {reading.important:g}; asked for: at least one each. "
            f"{int(unimportant.sum())} of all {k} are unimportant, {int((~important & ~unimportant).sum())} neither.",
            smallest=min(first, second),
        ),
        told(
            "first routers",
            bool((norms <= bound).all()),
            f"Norms up to {norms.max():.3g}; asked for, without loss of generality: at most (log l)/2 = {bound:.3g}."
            + (f" Important ones: up to {norms[important].max():.3g}." if important.any() else ""),
            largest=float(norms.max()),
            important=float(norms[important].max(initial=0)),
            asked=bound,
        ),
    ]
    if important.any():
        margin = float(seen.margin[important].min())
        active = float((seen.own_before[important] >= 0).mean(1).min())
        found += [
            told(
                "margin",
                margin >= reading.constant / d,
                f"Important routers put o at least C_p = {margin:.3g} from any irrelevant pattern; asked for: of the "
                f"order of 1/d = {1 / d:.3g}.",
                value=margin,
                asked=1 / d,
            ),
            told(
                "active neurons",
                active >= reading.fraction,
                f"At least {active:.0%} of an important expert's neurons are active on o; asked for: a constant "
                f"fraction, read as {reading.fraction:.0%}.",
                value=active,
            ),
        ]
    if unimportant.any():
        margin = float(seen.margin[unimportant].min())
        found.append(
            told(
                "margin of the others",
                margin >= reading.constant / d,
                f"Unimportant routers: C_p = {margin:.3g}. The proof of lemma 4.2 uses that it is of the order of 1/d "
                "here too; it is not among the paper's assumptions.",
                value=margin,
                asked=1 / d,
            )
        )
    return tuple(found)
