"""pruning2024's layer at the Lab's size: a step against autograd on vectors, a live run, a rho, inference."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks import plain_tokens as plain
from benchmarks.measure import Result, in_turns, ratio
from moe_lab.core.snapshots import final
from moe_lab.pruning import FineTuned, PlantedStart, TokenMoE, TokenRun, TokenTask, fine_tune
from moe_lab.pruning.data import SampleStream
from moe_lab.pruning.figures import CRITERIA
from moe_lab.pruning.layer import Layer, inference_seconds
from moe_lab.pruning.learner import TokenLearner, group_size, start_weights
from moe_lab_widgets.labs.pruning_knobs import KNOBS
from moe_lab_widgets.labs.pruning_record import RECORDS, OfferedTraining, run_of

TRIALS, SEED = 8, 0
CPU = torch.device("cpu")
EXPERT_CHOICE = TokenRun(model=TokenMoE(), task=TokenTask(), trials=TRIALS, seed=SEED, device="cpu")
TOKEN_CHOICE = EXPERT_CHOICE.replace(
    model=TokenMoE(routing="token-choice", top=2), start=PlantedStart(others_neurons=0.02)
)
FINE_TUNING = 60
"""Steps after pruning in a live run."""


def run(tiny: bool = False) -> list[Result]:
    effort = {"calls": 1, "rounds": 1} if tiny else {"calls": 10, "rounds": 15}
    return [
        *steps("expert_choice", EXPERT_CHOICE, plain.experts_choose, plain.experts_choose_among_all, **effort),
        *steps("token_choice", TOKEN_CHOICE, plain.tokens_choose, plain.tokens_choose_among_all, **effort),
        *(live(calls=1, rounds=1) if tiny else live(calls=5, rounds=5)),
        *inference(repeats=1 if tiny else 9),
    ]


# --- one step -------------------------------------------------------------------------------------------------------


def steps(
    name: str, run: TokenRun, gathered: plain.Outputs, everywhere: plain.Outputs, *, calls: int, rounds: int
) -> Iterator[Result]:
    """CPU milliseconds of a step per trial: the engine's trials in groups, as in a run, and autograd on one trial.

    Samples are drawn beforehand: their numbers for the engine, which counts them, and their vectors for autograd, which
    is kind to it. `drawn` is the engine's step with all that it takes.
    """
    size = min(TRIALS, group_size(run))
    ours, whole = Given(run, range(size)), Drawn(run, range(size))
    theirs = {label: Dense(run, outputs) for label, outputs in (("dense", gathered), ("all", everywhere))}
    rivals: dict[str, Callable[[], Any]] = {"step": ours, "drawn": whole, **theirs}
    for call in (ours, *theirs.values()):
        for _ in range(calls):
            call()
    for dense in theirs.values():  # rivals must do the same work
        dense.check(ours.learner)
    seconds = in_turns(rivals, calls=calls, rounds=rounds)
    own = {label: [value / size for value in seconds[label]] for label in ("step", "drawn")}
    yield Result(f"{name}_step_over_dense", ratio(seconds["dense"], own["step"]), "times", 5.0, "at least")
    yield Result(f"{name}_step_over_all", ratio(seconds["all"], own["step"]), "times")
    note = f"{size} trials at once"
    for label in ("step", "drawn"):
        yield Result(f"{name}_{label}", 1000 * statistics.median(own[label]), "CPU ms a trial", note=note)
    for label in ("dense", "all"):
        yield Result(f"{name}_{label}", 1000 * statistics.median(seconds[label]), "CPU ms a trial")


class Given:
    """The engine's step, on samples that are drawn already; their counting included."""

    def __init__(self, run: TokenRun, trials: range) -> None:
        self.learner = learner(run, trials)
        self.samples = SampleStream(run.task, trials=trials, seed=SEED).sample(run.batch)
        self.room = torch.empty(len(trials) * run.task.patterns * run.batch)

    def __call__(self) -> None:
        self.learner.step(self.samples.counts(self.room), self.samples.labels)


class Drawn:
    """The engine's step as a run takes it: fresh samples in portions."""

    def __init__(self, run: TokenRun, trials: range) -> None:
        self.learner = learner(run, trials)

    def __call__(self) -> None:
        self.learner.advance(1)


def learner(run: TokenRun, trials: range) -> TokenLearner:
    """Some trials of a run at their start."""
    weights = start_weights(run, trials, CPU, torch.float32)
    return TokenLearner(weights, run.model, run.task, trials=trials, seed=SEED, batch=run.batch)


class Dense:
    """Autograd on the vectors of trial 0: the same samples and first weights."""

    def __init__(self, run: TokenRun, outputs: plain.Outputs) -> None:
        self.model, self.outputs = run.model, outputs
        self.patterns = run.task.vectors([0], SEED)[0].float()
        weights = start_weights(run, [0], CPU, torch.float32)
        routers, neurons = weights.routers[0] @ self.patterns, self.patterns.T @ weights.neurons[0]
        self.at = plain.Plain(routers, neurons, weights.signs)
        samples = SampleStream(run.task, trials=[0], seed=SEED).sample(run.batch)
        self.tokens, self.labels = self.patterns[samples.tokens[0]], samples.labels[0]

    def __call__(self) -> None:
        rates = self.model.learning_rate, self.model.router_learning_rate
        self.at = plain.step(self.at, self.tokens, self.labels, self.model.top, *rates, self.outputs)

    def check(self, learner: TokenLearner) -> None:
        """Trial 0 of the engine is where this one is.

        Raises:
          AssertionError: it is elsewhere.
        """
        same: Callable[[Tensor, Tensor], None] = partial(torch.testing.assert_close, rtol=1e-3, atol=1e-4)
        same(self.at.routers, learner.weights.routers[0] @ self.patterns)
        same(self.at.neurons, self.patterns.T @ learner.weights.neurons[0])


# --- a live run -----------------------------------------------------------------------------------------------------


def live(calls: int, rounds: int) -> Iterator[Result]:
    """Measures the Lab's default run: train, fine-tune after pruning, and evaluate when rho moves."""
    values = {**{knob.name: knob.default for knob in KNOBS}, "seed": SEED}
    shown = run_of(values).replace(record_every=max(1, values["steps"] // RECORDS))
    held: list[FineTuned] = []
    rivals = {
        "train": lambda: held.append(fine_tune(EXPERT_CHOICE)),
        "tune": lambda: held[-1].tuned_whole(FINE_TUNING),
        "shown": lambda: final(OfferedTraining(shown).snapshots()),
    }
    seconds = {name: statistics.median(found) for name, found in in_turns(rivals, calls=1, rounds=rounds).items()}
    both = seconds["train"] + seconds["tune"]
    yield Result("pruning_live", both, "CPU s", note=f"{TRIALS} trials, trained and fine-tuned")
    yield Result("pruning_live_training", seconds["train"], "CPU s", note="of that")
    note = f"{shown.trials} trials, trained and measured as the Lab does"
    yield Result("pruning_live_shown", seconds["shown"], "CPU s", note=note)
    yield from evaluations(held[-1], both, calls, 2 * rounds - 1)


def evaluations(one: FineTuned, training: float, calls: int, rounds: int) -> Iterator[Result]:
    """Measures a move of rho, and the first one after a training that took so many seconds."""
    reached = float(one.accuracies(["router-norm-change"], (0.3, 0.5, 0.9)).min())
    assert reached >= 0.99, f"trials reach {reached:.3f} only"
    shares = iter(np.linspace(0.05, 0.95, 10_000))  # another rho at every call
    tenths = [tenth / 10 for tenth in range(10)]

    def first() -> None:
        fresh = FineTuned(one.run, one.before, one.after, one.diverged)
        fresh.accuracy(fresh.kept("importance-score", 0.5))

    rivals = {
        "rho": lambda: one.accuracy(one.kept("router-norm-change", float(next(shares))), FINE_TUNING),
        "curves": lambda: one.accuracies(CRITERIA, tenths, FINE_TUNING),
        "first_look": first,
    }
    found = in_turns(rivals, calls=calls, rounds=rounds)
    milliseconds = {name: 1000 * statistics.median(values) for name, values in found.items()}
    note = f"one criterion at another rho, {TRIALS} trials of {one.run.test_samples} test samples"
    yield Result("pruning_rho", milliseconds["rho"], "CPU ms", note=note)
    yield Result("pruning_rho_of_training", milliseconds["rho"] / 1000 / training, "of the run's time", 0.1)
    yield Result("pruning_curves", milliseconds["curves"], "CPU ms", note=f"{len(CRITERIA)} criteria, 10 rho")
    yield Result(
        "pruning_first_look", milliseconds["first_look"], "CPU ms", note="samples, statistics and votes as well"
    )


# --- inference ------------------------------------------------------------------------------------------------------


def inference(repeats: int, kept: int = 10) -> Iterator[Result]:
    """A layer with half of its experts against the whole one, at a size where products take most of the time."""
    experts, dimension, tokens = 20, 256, 100
    batch = torch.randn(16, tokens, dimension, generator=torch.Generator().manual_seed(SEED))
    for routing, top in (("expert-choice", 10), ("token-choice", 2)):
        model = TokenMoE(experts=experts, neurons=1024, routing=routing, top=top)
        layers = [Layer.random(model, dimension, kept=count, seed=SEED) for count in (experts, kept)]
        whole, pruned = inference_seconds(layers, batch, repeats=repeats).tolist()
        name = routing.replace("-", "_")
        note = f"{kept} of {experts} experts left"
        yield Result(f"pruned_{name}_time", ratio(pruned, whole), "of the whole layer's", 0.75, note=note)
        yield Result(f"pruned_{name}_memory", layers[1].bytes / layers[0].bytes, "of the whole layer's", note=note)
