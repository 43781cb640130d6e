"""Recovery of all trials at once against a loop over trials, and the memory that a third moment at d=200 takes."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks import plain_mixture as plain
from benchmarks.measure import Result, in_turns, ratio
from moe_lab.recovery import MixtureTask, measures
from moe_lab.recovery.data import MixtureSamples
from moe_lab.recovery.em import State
from moe_lab.recovery.gridlock import JointEM, MixtureRun, Spectral
from moe_lab.recovery.gridlock.spectral import power_starts
from moe_lab.recovery.gridlock.stages import recovered
from moe_lab.recovery.gridlock.training import recover, samples_of
from moe_lab.recovery.initialization import random_state

SEED = 0
TABLE_2 = MixtureRun(
    model=Spectral(joint_iterations=0), task=MixtureTask(), samples=2000, trials=20, seed=SEED, device="cpu"
)
FIGURE_3 = MixtureRun(
    model=JointEM(iterations=30),
    task=MixtureTask(experts=3, noise=0.5),
    samples=8000,
    trials=10,
    seed=SEED,
    device="cpu",
)


def run(tiny: bool = False) -> list[Result]:
    if tiny:
        few = TABLE_2.replace(trials=2), FIGURE_3.replace(trials=1, samples=500)
        return [*spectral(few[0], rounds=1), *joint(few[1], rounds=1), *memory(20, 2000)]
    return [*spectral(TABLE_2), *joint(FIGURE_3), *memory()]


# --- all trials at once, and one by one -------------------------------------------------------------------------------


def spectral(of: MixtureRun, rounds: int = 9) -> list[Result]:
    """Table 2's spectral method: 20 trials of k=2 d=10 n=2000, power iterations and 5 EM steps of the gates."""
    samples = samples_of(of)
    rivals: dict[str, Callable[[], Any]] = {
        "spectral": lambda: recovered(of, samples),
        "loop": lambda: spectral_loop(of, samples, plain.power),
        "textbook": lambda: spectral_loop(of, samples, plain.power_one_by_one),
        "drawn": lambda: recover(of),
    }
    for name in ("loop", "textbook"):
        same(rivals["spectral"](), rivals[name]())
    fit = measures.regressor_fit(recovered(of, samples).regressors, samples.truth.regressors).mean()
    seconds = in_turns(rivals, calls=1, rounds=rounds)
    return [
        Result(
            "spectral_20_trials",
            statistics.median(seconds["spectral"]),
            "CPU s",
            note=f"mean regressor fit {fit:.3f}",
        ),
        Result("spectral_20_trials_drawn", statistics.median(seconds["drawn"]), "CPU s", note="drawing included"),
        Result("spectral_over_textbook", ratio(seconds["textbook"], seconds["spectral"]), "times", 3.0, "at least"),
        Result("spectral_textbook", statistics.median(seconds["textbook"]), "CPU s", note="trials and starts looped"),
        Result("spectral_over_loop", ratio(seconds["loop"], seconds["spectral"]), "times"),
        Result("spectral_loop", statistics.median(seconds["loop"]), "CPU s", note="trials looped"),
    ]


def joint(of: MixtureRun, rounds: int = 5) -> list[Result]:
    """Figure 3's joint EM: 10 trials of k=3 d=10 n=8000, 30 iterations."""
    samples = samples_of(of)
    rivals: dict[str, Callable[[], Any]] = {
        "joint": lambda: recovered(of, samples),
        "loop": lambda: joint_loop(of, samples),
    }
    same(rivals["joint"](), rivals["loop"]())
    seconds = in_turns(rivals, calls=1, rounds=rounds)
    return [
        Result("joint_em_10_trials", statistics.median(seconds["joint"]), "CPU s"),
        Result("joint_em_over_loop", ratio(seconds["loop"], seconds["joint"]), "times", 1.0, "at least"),
        Result("joint_em_loop", statistics.median(seconds["loop"]), "CPU s"),
    ]


def spectral_loop(of: MixtureRun, samples: MixtureSamples, method: plain.Power) -> State:
    """The same by a loop over trials."""
    assert isinstance(of.model, Spectral)
    model, sigma, drawn = of.model, of.task.noise, (of.task, of.trial_numbers, of.seed, samples.x)
    starts, begin = power_starts(model, *drawn), random_state(*drawn)
    found = []
    for x, y, start, gates in zip(samples.x, samples.y, starts, begin.gates, strict=True):
        a = plain.regressors(x, y, of.task.experts, sigma, start, model.power_iterations, method)
        found.append(plain.em(a, gates, x, y, sigma, iterations=model.gate_iterations, move_regressors=False))
    return State(*(torch.stack(part) for part in zip(*found, strict=True)))


def joint_loop(of: MixtureRun, samples: MixtureSamples) -> State:
    """The same by a loop over trials."""
    assert isinstance(of.model, JointEM)
    begin = random_state(of.task, of.trial_numbers, of.seed, samples.x)
    given = {"iterations": of.model.iterations, "move_regressors": True}
    each = zip(*begin, samples.x, samples.y, strict=True)
    found = [plain.em(a, w, x, y, of.task.noise, **given) for a, w, x, y in each]
    return State(*(torch.stack(part) for part in zip(*found, strict=True)))


def same(mine: State, theirs: State) -> None:
    """Rivals must do the same work."""
    for one, other in zip(mine, theirs, strict=True):
        close: Tensor = torch.isclose(one, other, rtol=1e-3, atol=1e-4).flatten(1).all(1)
        assert close.double().mean() >= 0.9, "the loop recovers something else"  # whole Newton steps may part ways


# --- memory -----------------------------------------------------------------------------------------------------------


def memory(dimension: int = 200, samples: int = 50_000) -> list[Result]:
    """Peak memory of a recovery with k=5 in a process of its own, drawing included; T3 has 8e6 numbers at d=200."""
    child = [sys.executable, "-c", f"from benchmarks import recovery; recovery.large({dimension}, {samples})"]
    answer = subprocess.run(child, stdout=subprocess.PIPE, text=True, check=True).stdout
    found = json.loads(answer.splitlines()[-1])
    fit = f"regressor fit {found['fit']:.2f}"
    return [
        Result(
            "third_moment_peak",
            found["peak"],
            "GB",
            1.0,
            note=f"d={dimension} k=5 n={samples:,}, torch included; {fit}",
        ),
        Result("third_moment_seconds", found["seconds"], "CPU s", note="drawing excluded"),
    ]


def large(dimension: int, samples_drawn: int) -> None:
    """One recovery, measured; the last line printed is its record."""
    import resource
    import time

    torch.set_num_threads(1)
    of = MixtureRun(
        model=Spectral(gate_iterations=0, joint_iterations=0),
        task=MixtureTask(experts=5, dimension=dimension),
        samples=samples_drawn,
        trials=1,
        seed=SEED,
        device="cpu",
    )
    samples = samples_of(of)
    begin = time.process_time()
    state = recovered(of, samples)
    seconds = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9
    fit = float(measures.regressor_fit(state.regressors, samples.truth.regressors)[0])
    print(json.dumps({"peak": peak, "seconds": seconds, "fit": fit}))
