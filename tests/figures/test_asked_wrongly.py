"""What each table or figure refuses besides what all of them do: in a sentence, before anything trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moe_lab.core.interrupts import interrupted_when
from moe_lab.patch_routing import DigitTask, JointMoE, RoutedMoE, routing_figures
from moe_lab.patch_routing import figures as of_patches
from moe_lab.pruning import PlantedStart, TokenMoE
from moe_lab.pruning import figures as of_tokens
from moe_lab.recovery import gating
from moe_lab.recovery.gridlock import figures as of_mixtures
from moe_lab.recovery.gridlock.published import published as mixtures_published
from moe_lab.recovery.landscape import figures as of_losses
from moe_lab.specialization import TopKMoE, balancing
from moe_lab.specialization import figures as of_clusters
from moe_lab.vision import figures as of_images

WRONG: list[tuple[Callable[[], Any], str]] = [
    # --- pmoe2023
    (lambda: of_patches.sample_complexity("letters"), "source must be .*'letters'"),
    (lambda: of_patches.sample_complexity("mnist"), "needs root="),
    (lambda: of_patches.sample_complexity(samples=(101,)), "multiple of classes.*N=101"),
    (lambda: of_patches.sample_complexity(batch_size=200, samples=(100,)), "batch_size .B. must be at most"),
    (lambda: of_patches.sample_complexity(learning_rate=-1.0), "learning_rate .eta. must be greater than 0"),
    (lambda: of_patches.sample_complexity(measure="every"), "sets these itself.*measure"),
    (lambda: of_patches.accuracy_by_experts(experts=(8, 7)), "divisible by experts .k.*k=7"),
    (lambda: of_patches.accuracy_by_patches(patches_per_expert=(1, 17)), "l=17, n=16"),
    (lambda: of_patches.separate_routers(patches_per_expert=(0,)), "at least 1: got l=0"),
    (lambda: of_patches.joint_routers(samples=(7,)), "N=7"),
    (lambda: of_patches.illustrations(source="patterns"), "the figures are of digits: got source='patterns'"),
    (
        lambda: of_patches.illustrations(task=DigitTask(digits=(1, 2, 3))),
        r"the figures have two classes \(c\): got c=3",
    ),
    (lambda: of_patches.illustrations(model=JointMoE(recipe="authors")), "train as the paper says"),
    (
        lambda: routing_figures.by_experts_per_patch((1, 9)),
        r"experts_per_patch \(t\) must be at most experts \(k\): got t=9, k=8",
    ),
    (lambda: routing_figures.by_capacity((0.0,)), "capacity_factor"),
    (lambda: routing_figures.by_capacity((1.0,), model=RoutedMoE()), "a figure sets these itself"),
    # --- chen2022
    (lambda: of_clusters.table3(settings=(1, 5)), "setting must be 1, 2, 3 or 4: got setting=5"),
    (lambda: of_clusters.table3(models="moe-quartic"), "model must be moe-ACTIVATION.*got model='moe-quartic'"),
    (lambda: of_clusters.table3(models="moe-cubic-512"), "got model='moe-cubic-512'"),
    (lambda: of_clusters.table3(models="single-cubic-512-3"), "got model='single-cubic-512-3'"),
    (lambda: of_clusters.table3(models="single-cubic-x"), "got model='single-cubic-x'"),
    (lambda: of_clusters.table3(models="single-cubic-7"), "filters .J. must be even.*J=7"),
    (lambda: of_clusters.table3(objective="mine"), "objective must be 'paper' or 'authors': got objective='mine'"),
    (lambda: of_clusters.table3(test_samples=0), "test_samples .n_test. must be at least 1"),
    (lambda: of_clusters.table3(measure="every"), "sets these itself.*measure"),
    (lambda: of_clusters.table1(settings=(1,)), "no parameter 'settings'"),
    (lambda: of_clusters.single_experts(activations=("cubic", "cosine")), "activations must be among .*cosine"),
    (lambda: of_clusters.single_experts(filters=3), "filters .J. must be even"),
    (lambda: of_clusters.single_experts(feature=(2, 1)), "feature .alpha. must be a range"),
    (lambda: of_clusters.load_balancing(strength=-1.0), "load_balancing .lambda. must be at least 0"),
    (lambda: of_clusters.entropy_through_time(models="single-cubic"), "only mixtures have a dispatch entropy"),
    (lambda: of_clusters.entropy_through_time(every=0), "record_every must be at least 1"),
    (lambda: of_clusters.inner_products("quartic"), "got model='moe-quartic'"),
    (lambda: of_clusters.inner_products(setting=0), "setting must be 1, 2, 3 or 4"),
    (lambda: of_clusters.dispatch_table("cubic"), "kind must be 'nonlinear' or 'linear': got kind='cubic'"),
    (lambda: of_clusters.dispatch_table(setting=7), "setting must be 1, 2, 3 or 4"),
    (lambda: of_clusters.dispatch_table(trial=-1), "first_trial must be at least 0"),
    (lambda: of_clusters.dispatch_table(store="there"), "one training has no store and no jobs"),
    (lambda: of_clusters.tsne(shown=5), "shown must be at least 10"),
    (lambda: of_clusters.tsne(perplexity=1600.0), "perplexity must be at least 1 and less than shown"),
    (lambda: of_clusters.tsne(neighbours=0), "neighbours must be from 1 to shown"),
    (lambda: of_clusters.tsne(stretch=0.0), "stretch must be between"),
    (lambda: of_clusters.tsne(resolution=1), "resolution must be from 2"),
    (lambda: of_clusters.published("table 2"), "place must be one of table 1, .*got place='table 2'"),
    (lambda: balancing.balancing("loss"), "balancing must be one of 'none'"),
    (lambda: balancing.balancing(strengths=-1.0), r"strength \(lambda\) must be at least 0: got lambda=-1"),
    (lambda: balancing.divisions(3), r"parts must divide the filters \(J\): got parts=3, J=16"),
    (lambda: balancing.divisions(1, 1), "some part must be larger than shared"),
    (lambda: balancing.divisions(model=TopKMoE(shared=1)), "one expert per sample and no shared ones"),
    # --- pruning2024
    (lambda: of_tokens.criteria(start="planned"), "start must be 'planted', 'random', .*got start='planned'"),
    (lambda: of_tokens.criteria(routing="switch"), "routing must be 'expert-choice' or 'token-choice'"),
    (lambda: of_tokens.criteria(rho=1.0), "rho must be at least 0 and less than 1"),
    (lambda: of_tokens.criteria(rho=(0.5, -0.1)), r"^rho must be .*: got rho=-0.1"),
    (lambda: of_tokens.criteria(rho=float("nan")), "axis rho must be finite"),
    (lambda: of_tokens.criteria(criteria="luck"), "a criterion must be one of .*got criterion='luck'"),
    (lambda: of_tokens.criteria(fine_tuning_steps=-1), "fine_tuning_steps must be a whole number >= 0"),
    (lambda: of_tokens.criteria(experts=7), "experts .k. must be even"),
    (lambda: of_tokens.criteria(top=101), "top .l. must be at most tokens"),
    (lambda: of_tokens.criteria(start=PlantedStart(important=10)), "important experts must leave at least one"),
    (lambda: of_tokens.criteria(measure="every"), "a figure sets these itself: got settings=.'measure'."),
    (lambda: of_tokens.criteria(model=TokenMoE()), "a figure sets these itself: got settings=.'model'."),
    (lambda: of_tokens.criteria(top=1), "undefined where no router moves: .*'router-norm-change'.*l=1"),
    (lambda: of_tokens.criteria(routing="token-choice", top=1), "undefined where no router moves"),
    (
        lambda: of_tokens.criteria(router_learning_rate=0.0, criteria=("random", "router-difference-norm")),
        "undefined where no router moves: .*criteria=.'router-difference-norm'., l=5, eta_r=0",
    ),
    (lambda: of_tokens.figure3(top=1), "top .l. must be at least 2, or no router moves: got l=1"),
    (lambda: of_tokens.figure3(trial=8), "trial must be one of those that are trained: got trial=8"),
    (lambda: of_tokens.figure7(start="planted"), "figure 7 takes, besides its own"),
    (lambda: of_tokens.efficiency(1.0), "rho must be at least 0"),
    (lambda: of_tokens.efficiency(routings="switch"), "routing must be 'expert-choice' or 'token-choice'"),
    (lambda: of_tokens.efficiency(experts=5), "experts .k. must be even"),
    (lambda: of_tokens.efficiency(repeats=0), "repeats must be a whole number, at least 1: got repeats=0"),
    (lambda: of_tokens.efficiency(kept_tokens=101), "kept_tokens .l. must be at most tokens .n.: got l=101, n=100"),
    (lambda: of_tokens.efficiency(picked_experts=21), "top .l. must be at most experts"),
    # --- gridlock2019
    (lambda: of_mixtures.table2(gating="curved"), "gating.*got gating='curved'"),
    (lambda: of_mixtures.table2(methods="magic"), "a method must be one of orth-als, .*got method='magic'"),
    (lambda: of_mixtures.table2(samples=10), "samples .n. must be at least dimension .d. times experts .k."),
    (lambda: of_mixtures.table2(noise=0.0), "noise .sigma. must be greater than 0"),
    (lambda: of_mixtures.table2(record_every=2), "sets these itself"),
    (lambda: of_mixtures.table1(first_share=1.0), "first_share .p. must be less than 1"),
    (lambda: of_mixtures.stuck_rate(k=17), "dimension .d. must be at least experts .k."),
    (lambda: of_mixtures.stuck_rate(methods="spectral"), "methods must be among spectral.em"),
    (lambda: of_mixtures.stuck_rate(joint_iterations=10), "iterations must be at least window"),
    (lambda: of_mixtures.stuck_rate(window=0), "window must be at least 1"),
    (lambda: of_mixtures.stuck_rate(gain=1.0), "gain must be between 0 and 1"),
    (lambda: of_mixtures.stuck_rate(regressors="square"), "regressors.*got regressors='square'"),
    (lambda: of_mixtures.figure3(iterations=0), "iterations must be at least 1"),
    (lambda: of_mixtures.figure3(gate_iterations=0), "gate_iterations must be at least 1"),
    (lambda: of_mixtures.figure3(methods="em-from-truth"), "always computed, as best_error"),
    (lambda: of_mixtures.figure5(activation="step"), "activation .g. must be one of .*got g='step'"),
    (lambda: of_mixtures.figure6("stocks"), "source must be one of diabetes, airfoil, concrete, portfolio"),
    (lambda: of_mixtures.figure6(methods="lasso"), "methods must be among variance, ridge"),
    (lambda: of_mixtures.figure6(iterations=0), "iterations must be at least 1"),
    (lambda: of_mixtures.figure6(k=11), "dimension .d. must be at least experts .k."),
    (lambda: of_mixtures.figure6(noise=0.0), "noise .sigma. must be greater than 0"),
    (lambda: of_mixtures.figure6(path="x.csv"), "diabetes is embedded: leave out path"),
    (lambda: mixtures_published("table 3"), "place must be one of table 1, table 2"),
    (lambda: gating.gating_rates(fitted=(1,)), r"fitted must be at least experts \(k\): got fitted=1, k=2"),
    (lambda: gating.gating_rates(samples=(500,)), "samples must have at least two values, for a rate"),
    (lambda: gating.gating_rates(last_gate="one"), "last_gate must be 'random' or 'zero': got last_gate='one'"),
    # --- gated2019
    (lambda: of_losses.l4_against_l2(every=0), "record_every must be at least 1"),
    (lambda: of_losses.l4_against_l2(record_every=3), r"a figure sets these itself: got settings=\['record_every'\]"),
    (lambda: of_losses.l4_against_l2(dimension=1), "dimension .d. must be"),
    (lambda: of_losses.l4_against_l2(first_share=0.5), "L4 needs inputs from N.0, I"),
    (lambda: of_losses.gate_sharpness((0.0,)), r"sharpness .beta. must be greater than 0"),
    (lambda: of_losses.loss_surface("l3"), "loss must be 'L4' or 'l2': got loss='l3'"),
    (lambda: of_losses.loss_surface(resolution=1), "resolution must be from 2 to 1001: got resolution=1"),
    (lambda: of_losses.loss_surface("L4", regressors="random"), "L4's solutions are known.*plane='path'"),
    (lambda: of_losses.loss_surface("l2", experts=5, dimension=12), "at most 4 experts: got k=5"),
    # --- vision
    (lambda: of_images.sample_complexity(models="gated"), "models must be among learned, none, random, soft, conv"),
    (lambda: of_images.controls(models=()), "models must be among single, same parameters"),
    (lambda: of_images.controls("sideways"), "kind must be one of"),
]


@pytest.mark.parametrize(("call", "says"), WRONG, ids=[says for _, says in WRONG])
def test_a_wrong_question_is_one_sentence_before_anything_trains(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(ValueError, match=says) as error, interrupted_when(lambda: True):
        call()
    assert "\n" not in str(error.value)
