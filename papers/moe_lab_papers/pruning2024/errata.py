"""Misprints of pruning2024 and omitted steps, with checks of what can be computed."""

from __future__ import annotations

import math

import numpy as np

from moe_lab.core.findings import Finding, judged
from moe_lab.pruning import theory
from moe_lab.pruning.checkpoints import FineTuned, fine_tune
from moe_lab.pruning.data import TokenTask
from moe_lab.pruning.initialization import PlantedStart, RandomStart
from moe_lab.pruning.model import TokenMoE
from moe_lab.pruning.run import TokenRun
from moe_lab_papers.paper import Paper
from moe_lab_papers.pruning2024.measures import E3, MADE_FOR, PRUNED, V_MOE

paper = Paper("pruning2024")


@paper.erratum(
    "equation6-denominator",
    "section 3.2, equation 6",
    printed="the denominator is the sum of exp(g_j^(i)) over i in J_s",
    instead="the sum of exp(g_i^(s)) over i in J_s, as in equation 4",
    evidence="J_s holds tokens, and i is used where an expert should be; with nothing pruned the two equations "
    "must be one",
)
def equation_6() -> Finding:
    """With nothing pruned, (6) has to be (4): gates of an expert that sum to 1."""
    scores = np.random.default_rng(0).standard_normal(
        (4, 4)
    )  # g_j^(s), (s, j): as many experts as tokens, for i is both
    kept = np.argsort(-scores, axis=1)[:, :2]
    raised = np.exp(scores)
    meant = [raised[s, kept[s]].sum() / raised[s, kept[s]].sum() for s in range(4)]
    printed = [sum(raised[s, j] / raised[kept[s], j].sum() for j in kept[s]) for s in range(4)]
    off, right = (float(np.abs(np.array(sums) - 1).max()) for sums in (printed, meant))
    sentence = f"An expert's gates sum to 1 with g_i^(s); as printed their sum is off by up to {off:.2g}."
    return Finding("equation 6", judged(True, right < 1e-12 and off > 0.1), sentence, {"off": off})


@paper.erratum(
    "appendixC-proficiency",
    "appendix C, definition of p_1 and p_2",
    printed="p^(s,t) requires G^(s,0) >= 1/l, the gate of step 0",
    instead="G^(s,t), as in section 4.2",
    evidence="as printed, an expert that learned its pattern would keep a small p, and lemma 4.1 (i) would be false",
)
def proficiency() -> Finding:
    """Lemma 4.1 (i) with the gate of step T, and with that of step 0."""
    tuned = _random(steps=300)
    after, printed = theory.evidence(tuned).after["proficiency"], theory.printed_proficiency(tuned)
    learned = after == 1
    low = float(printed[learned].min(initial=1))
    sentence = f"{int(learned.sum())} experts end with p = 1; with the gate of step 0 one of them has {low:.2f}."
    return Finding("appendix C, p", judged(True, bool(learned.any()) and low < 0.5), sentence, {"printed": low})


@paper.erratum(
    "section4.2-frequency",
    "section 4.2 against section 5.1",
    printed="every irrelevant pattern occurs in a sample with probability O(1/d)",
    instead="about n/d, if n - 1 tokens are drawn from d - 2 patterns",
    evidence="the experiment has n = 100 tokens of d = 200 patterns",
)
def frequency() -> Finding:
    """How often a pattern occurs in a sample of section 5.1."""
    task = TokenTask()
    often = 1 - (1 - float(task.frequencies.max())) ** (task.tokens - 1)
    sentence = (
        f"With n = 100 and d = 200 it occurs in {often:.0%} of the samples, {often * task.patterns:.0f} times 1/d."
    )
    counts = task.sample(2000, trials=[0], seed=0).counts()[0, int(task.irrelevant[0])]
    counted = float((counts > 0).double().mean())
    true = often > 10 / task.patterns and abs(counted - often) < 0.05
    return Finding("section 4.2", judged(True, true), f"{sentence} Counted: {counted:.0%}.", {"often": often})


paper.erratum(
    "section5.1-settings",
    "section 5.1",
    printed="the number of neurons, both step sizes, the batch and the number of steps are not given",
    instead="m = 20, eta_e = .1, eta_r = .01, B = 100 and T = 300 give figure 3",
    evidence="found by trying: the norms and their number are like those of figure 3a",
)


@paper.erratum(
    "equation11-root",
    "section 4.3, equation 11",
    printed="T' = Omega(k l^2 sqrt(log l / eta_e))",
    instead="T' = Omega(k l^2 sqrt(log l) / eta_e), as in lemma H.1",
    evidence="a neuron moves by at most eta_e in a step",
)
def equation_11() -> Finding:
    """A neuron moves by eta_e or less in a step: how far it can move in the steps of (11), as eta_e decreases."""
    k, top = 20, 5
    reached = [eta * k * top**2 * math.sqrt(math.log(top) / eta) for eta in (1e-2, 1e-4)]
    lemma_h1 = [eta * k * top**2 * math.sqrt(math.log(top)) / eta for eta in (1e-2, 1e-4)]
    asked = k * top**2 * math.sqrt(math.log(top))
    shares = [distance / asked for distance in reached]
    sentence = (
        f"As printed, the steps let a neuron move by {shares[0]:.2g} and {shares[1]:.2g} of what (12) requires with "
        "eta_e = .01 and .0001, which is no constant; with lemma H.1's by all of it."
    )
    true = shares[1] < 0.2 * shares[0] and np.allclose(lemma_h1, asked)
    return Finding("equation 11", judged(True, true), sentence, {"share": shares[1]})


@paper.erratum(
    "equation8-lower-bound",
    "section 4.3, equation 8",
    printed="eta_r = O(eta_e / (m d l^2))",
    instead="eta_r of this size, not below it",
    evidence="with eta_r = 0, which is allowed, routers do not move and lemma 4.1 (iv) is false",
)
def equation_8() -> Finding:
    """Lemma 4.1 (iv) where the routers' rate is 0, which (8) allows, and where it is not."""
    changes = []
    for rate in (0.0, 0.05):
        run = TokenRun(
            model=TokenMoE(experts=6, router_learning_rate=rate),
            task=TokenTask(patterns=60, tokens=30),
            start=PlantedStart(important=1, others_norm=0.4),
            trials=1,
            steps=110,
            test_samples=200,
        )
        change = next(finding for finding in theory.lemma_4_1(fine_tune(run)) if finding.statement.endswith("Delta"))
        changes.append((change.holds, change["smallest"]))
    sentence = f"Delta of important experts is {changes[0][1]:g} with eta_r = 0 and {changes[1][1]:.2g} with .05."
    true = not changes[0][0] and changes[0][1] == 0 and changes[1][0]
    return Finding("equation 8", judged(True, true), sentence, {"still": changes[0][1], "moving": changes[1][1]})


paper.erratum(
    "equation8-factor",
    "section 4.3, equation 8, against lemmas D.1, F.1 and H.1",
    printed="eta_r = O(eta_e / (m d l^2)); the full versions have eta_e C_p / (m d l^2 C_2^2) with C_p of the size "
    "of 1/d",
    instead="the d in the denominator of the full versions is one too many: the proof of F.1 and lemma E.4 have none",
    evidence="1/C_p is d, so the two differ by a factor d",
)


@paper.erratum(
    "lemmaD.1-norm",
    "appendix D, proof of lemma 4.1 (iv)",
    printed="<w_s, o_1> > 2 log l, hence Delta > 1.5 log l",
    instead="the proof has shown log l < <w_s, o_1 - q> <= 2 log l; (iv) needs some more steps",
    evidence="a router with everything that was shown and Delta below 1.5 log l",
)
def lemma_d_1() -> Finding:
    """A router that is 1.2 log l along o_1 and 0 elsewhere has all that the proof shows before it turns to (iv)."""
    top = 5
    log = math.log(top)
    along, gate = 1.2 * log, top**1.2 / (top**1.2 + top - 1)
    sentence = (
        f"<w, o_1 - q> = {along:.2f} > log l = {log:.2f} for every q and the gate is {gate:.2f} > 1/2, but Delta <= "
        f"||w|| = {along:.2f} < 1.5 log l = {1.5 * log:.2f}."
    )
    return Finding("lemma D.1, (iv)", judged(True, log < along < 1.5 * log and gate > 0.5), sentence, {"delta": along})


@paper.erratum(
    "lemmaE.6-conditions",
    "appendix E, lemma E.6",
    printed="G_1 (1 - G_1) >= 1/(4l) if some kept q has 0 < <w_s, o_1 - q> <= 2 log l",
    instead="if G_1 >= 1/l and every kept token is within 2 log l of o_1",
    evidence="a third token far above both makes G_1 as small as one likes",
)
def lemma_e_6() -> Finding:
    """G (1 - G) >= 1/(4l) as printed, and where G >= 1/l and every kept token is within 2 log l of o_1."""
    raised = np.exp(np.array([1.0, 0.9, 10.0]))  # o_1, q just below it, another pattern far above; l = 3
    gate = float(raised[0] / raised.sum())
    draws, lowest = np.random.default_rng(0), math.inf
    for top in (2, 3, 5, 10):
        below = draws.uniform(-2 * math.log(top), 2, (20_000, top - 1))  # the others, relative to o_1
        gates = 1 / (1 + np.exp(below).sum(1))
        gates = gates[gates >= 1 / top]
        lowest = min(lowest, float((4 * top * gates * (1 - gates)).min()))
    sentence = (
        f"With <w, o_1> = 1, <w, q> = .9, <w, q'> = 10 and l = 3, G (1 - G) is {gate * (1 - gate):.2g}, not 1/12 or "
        f"more; with both conditions 4 l G (1 - G) is {lowest:.2f} at the least of 80,000 draws."
    )
    true = gate * (1 - gate) < 1 / 12 and lowest >= 1
    return Finding("lemma E.6", judged(True, true), sentence, {"printed": gate * (1 - gate), "corrected": lowest})


@paper.erratum(
    "lemmaE.2-proficiency",
    "appendix E, lemma E.2 (iii)",
    printed="the gradient of an active neuron along o_1 is at most -1/(2l), if p^(0) = Omega(1)",
    instead="at most -p^(0)/(2l)",
    evidence="where o_1 is not kept there is no gradient, which may be so in 1 - p of the samples of class 1",
)
def lemma_e_2() -> Finding:
    """The first expected gradient of an active neuron along o_1, which is -E[G_1]/2, for an expert with p below 1."""
    tuned = _random(steps=1)
    before, top = theory.evidence(tuned).before, tuned.run.model.top
    some = np.flatnonzero((before["proficiency"] > 0.1) & (before["proficiency"] < 0.9))
    slopes, shares = -before["gate"][some] / 2, before["proficiency"][some]
    true = bool((slopes > -0.9 / (2 * top)).any() and (slopes <= -0.99 * shares / (2 * top)).all())
    cases = ", ".join(f"{slope:.3f} with p = {share:.2f}" for slope, share in zip(slopes, shares, strict=True))
    sentence = f"It is {cases}: not {-1 / (2 * top):g} or below in all, but -p/(2l) or below."
    return Finding("lemma E.2, (iii)", judged(True, true), sentence, {"slope": float(slopes.max(initial=-math.inf))})


@paper.erratum(
    "lemmaF.1-steps",
    "appendix F, lemma F.1 (full version of lemma 4.2)",
    printed="T = Omega(l^2 C_2 / eta_e sqrt(log l / C_p)) iterations, for any unimportant expert",
    instead="T = O(...) iterations, for unimportant experts whose routers have the margin C_p of appendix C",
    evidence="the proof takes T = O(...) as given below (24), (25) and (26), and |<w_s, o_1 - q>| >= C_p, which "
    "appendix C assumes for important experts only; from a random start, which has no such margin, unimportant "
    "experts become important (lemma4.2/i-proficiency-random-start)",
)
def margin() -> Finding:
    """Lemma 4.2 from a random start, which does not give unimportant routers the margin that its proof takes."""
    tuned = _random(steps=300)
    condition = next(one for one in theory.conditions(tuned) if "margin of the others" in one.statement)
    failing = [one for one in theory.lemma_4_2(tuned) if one.state == "fails"]
    smallest, required = condition.numbers["value"], condition.numbers["required"]
    sentence = (
        f"Of unimportant routers C_p is {smallest:.2g}, not of the order of 1/d = {required:.2g}, and {len(failing)} "
        "of the lemma's two statements fail."
    )
    true = smallest < 0.1 * required and bool(failing)
    return Finding("lemma F.1", judged(True, true), sentence, {"margin": smallest})


paper.erratum(
    "equations14-16-index",
    "appendix C, equations 15 and 16",
    printed="the sum runs over i, the terms have j",
    instead="the same letter, as in equation 14",
    evidence="read like this the equations are the derivative, to rounding (appendixC/router-gradient)",
)


@paper.erratum(
    "appendixA-parameters",
    "appendix A",
    printed="roughly 979 million parameters of the V-MoE, 167 million of the E3",
    instead="284 and 56 million with the 8 experts that are stated",
    evidence="the numbers are those of 32 experts and a head of 18,291 classes; the pruned shares are those of 8 "
    "experts",
)
def parameters() -> Finding:
    """Parameters of the models that section 5.2 describes, and of those with 32 experts and the pre-training head."""
    printed = {"V-MoE": (V_MOE, 979e6), "E3": (E3, 167e6)}
    eight = {name: model.parameters / number for name, (model, number) in printed.items()}
    more = {
        name: model._replace(experts=32, classes=MADE_FOR).parameters / number
        for name, (model, number) in printed.items()
    }
    sizes = ", ".join(f"{name} {model.parameters / 1e6:.0f} M" for name, (model, _) in printed.items())
    sentence = (
        f"With 8 experts: {sizes}. With 32 and a head of {MADE_FOR:,} classes: "
        f"{' and '.join(f'{share:.1%}' for share in more.values())} of the printed numbers."
    )
    true = all(share < 0.5 for share in eight.values()) and all(abs(share - 1) < 0.005 for share in more.values())
    return Finding("appendix A", judged(True, true), sentence, eight)


@paper.erratum(
    "section5.2.1-half",
    "section 5.2.1, figure 4b",
    printed="50 % of the experts are 35 % of the whole model",
    instead="50 % of the experts of five encoders, 42 % of all, as stated for ImageNet",
    evidence="half of all experts hold 40 % of the parameters",
)
def shares() -> Finding:
    """What 50 % of the V-MoE's experts are of its parameters."""
    half, five = (PRUNED[name][1] for name in ("cifar-100", "cifar-10/bare"))
    each = V_MOE.expert / V_MOE.parameters
    sentence = (
        f"Half of all 48 experts hold {half * each:.1%} of the parameters; half of those of five encoders are {five} "
        f"({five / 48:.0%}) and hold {five * each:.1%}."
    )
    true = abs(half * each - 0.35) > 0.03 > abs(five * each - 0.35)
    return Finding("section 5.2.1", judged(True, true), sentence, {"half": half * each, "five": five * each})


def _random(steps: int) -> FineTuned:
    """Fine-tunes a layer of section 5.1 from random weights, where some experts miss a part of their pattern."""
    model = TokenMoE(router_learning_rate=0.01)
    given = {"seed": 1, "trials": 1, "batch": 100, "test_samples": 1000}
    return fine_tune(TokenRun(model=model, task=TokenTask(), start=RandomStart(), steps=steps, **given))
