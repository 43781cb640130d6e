"""The playground's numbers against the library's, in node: streams, samples, steps, whole runs and maps.

Seeds are drawn anew in every run, and named where a test fails.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from moe_lab.core.snapshots import Snapshot
from moe_lab.core.trials import stream
from moe_lab.patch_routing import CNN, DigitTask, JointMoE, PatternTask, train
from moe_lab.patch_routing.fixed import FixedRules, fixed_step
from moe_lab.patch_routing.joint import JointRules, by_expert, joint_step
from moe_lab.patch_routing.phase_live import phase_records
from moe_lab_widgets.labs import phase_transition
from moe_lab_widgets.labs.router_alignment_runs import steps, task_of
from moe_lab_widgets.playground import constants
from moe_lab_widgets.playground.bundle import Modules
from tests.widgets.playground.in_node import answered

Ask = Callable[..., Any]
READ = 'import { readFileSync } from "node:fs";\nconst asked = JSON.parse(readFileSync(0, "utf8"));\n'
REPLACE = "(_, one) => ArrayBuffer.isView(one) ? Array.from(one, (x) => Number.isNaN(x) ? null : x) : one"


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Runs a script on what is asked; arrays come back as lists, with None for NaN."""

    def run(script: str, asked: Any, *needed: str) -> Any:
        imports = "".join(f'import * as {name} from "./{name}.js";\n' for name in needed)
        text = f"{imports}{READ}{script}\nconsole.log(JSON.stringify(answer, {REPLACE}));\n"
        return answered(text, asked, *needed, modules=Modules(constants.modules()), folder=tmp_path)

    return run


@pytest.fixture
def seed() -> int:
    """Up to 53 bits, as the page's seeds."""
    return secrets.randbelow(2**53)


def array(found: Any) -> np.ndarray:
    return np.array(found, dtype=float)


STREAMS = """
const answer = asked.map(({ seed, trial, purpose, count, lengths }) => {
  const begun = () => new streams.Stream(seed, trial, purpose);
  const order = begun();
  return {
    normals: begun().normals(count), uniforms: begun().uniforms(count),
    orders: lengths.map((length) => order.permutation(length)),
  };
});"""


def test_streams_are_numpys(ask: Ask, seed: int) -> None:
    count, lengths = 20_000, [100, 37, 2, 1, 100, 1000]
    asked = [
        {"seed": one, "trial": trial, "purpose": purpose, "count": count, "lengths": lengths}
        for one, trial, purpose in ((0, 0, "experts"), (seed, 7, "train/noise"), (seed % 2**32, 999, "order/100"))
    ]
    for one, found in zip(asked, ask(STREAMS, asked, "streams"), strict=True):
        key = one["seed"], one["trial"], one["purpose"]
        assert found["uniforms"] == stream(*key).random(count).tolist(), key
        orders = stream(*key)
        assert found["orders"] == [orders.permutation(length).tolist() for length in lengths], key
        np.testing.assert_allclose(found["normals"], stream(*key).standard_normal(count), rtol=0, atol=1e-14)


TASKS: dict[str, PatternTask | DigitTask] = {
    "digits": DigitTask(),
    "noisy digits": DigitTask(noise=0.7, patches=5),
    "patterns": PatternTask(),
    "leaning": PatternTask(delta_d=0.5, distractors=6, patches=24, gap=0.6, noise=0.0),
    "no distractors": PatternTask(distractors=0, delta_d=-0.8, delta_r=0.95),
    "no gap": PatternTask(gap=0.0, patches=6),
}
SAMPLES = """
const images = await tasks.Images.unpacked();
const answer = [];
for (const { values, seed, trial, count } of asked) {
  const task = await tasks.taskOf(values, async () => images);
  const { bank, index, labels, signal, roles, sides, n, d } = task.sample(count, trial, seed, "train");
  const rows = Array.from(index, (row) => bank.subarray(row * d, row * d + d));
  answer.push({ rows, labels, signal, roles, sides, n, signals: task.signals() });
}"""


def values_of(task: PatternTask | DigitTask) -> dict[str, Any]:
    names = ("patches", "noise", "distractors", "gap", "delta_d", "delta_r")
    source = "digits" if isinstance(task, DigitTask) else "synthetic"
    return {"source": source, **{name: getattr(task, name, 0) for name in names}}


def test_samples_are_the_librarys(ask: Ask, seed: int) -> None:
    count, trial = 44, 3
    asked = [{"values": values_of(task), "seed": seed, "trial": trial, "count": count} for task in TASKS.values()]
    for (name, task), found in zip(TASKS.items(), ask(SAMPLES, asked, "tasks"), strict=True):
        samples = task.sample(count, trials=[trial], seed=seed, dtype=torch.float64)
        patches = samples.patches()[0].flatten(0, 1)
        np.testing.assert_allclose(array(found["rows"]), patches, rtol=0, atol=1e-13, err_msg=f"{name}, {seed}")
        for part in ("labels", "signal", "roles", "sides"):
            assert found[part] == getattr(samples, part)[0].flatten().tolist(), (name, part, seed)
        np.testing.assert_allclose(array(found["signals"]), task.signals([trial], seed)[0], rtol=0, atol=1e-13)


STEPS = """
const answer = asked.map(({ m, k, l, n, d, count, rate, weights, outputs, patches, labels }) => {
  const all = Float64Array.from(weights);
  const start = () => ({ neurons: all.slice(0, m * d), outputs: Float64Array.from(outputs), d });
  const index = Int32Array.from({ length: count * n }, (_, patch) => patch);
  const samples = { count, n, d, bank: Float64Array.from(patches), index, labels };
  const chosen = Array.from({ length: count }, (_, sample) => sample);
  const joint = new model.JointMoE(start(), all.slice(m * d), l);
  const cnn = model.FixedMoE.cnn(start(), [samples]);
  const losses = [joint, cnn].map((one) => one.step(samples, chosen, rate));
  return { joint: [...joint.neurons, ...joint.routers], cnn: cnn.neurons, losses, work: [joint.work, cnn.work] };
});"""
SIZES = [
    (4, 4, 16, 64, 20),
    (8, 6, 16, 32, 20),
    (1, 1, 9, 32, 20),
    (5, 3, 17, 64, 7),
    (2, 16, 64, 32, 20),
    (4, 1, 6, 8, 3),
]


def test_steps_are_the_librarys(ask: Ask, seed: int) -> None:
    m, rate, double = 40, 0.7, torch.float64
    generator = torch.Generator().manual_seed(seed)
    asked, expected = [], []
    for k, kept, n, d, count in SIZES:
        weights = torch.randn(1, m + k, d, dtype=double, generator=generator) * 0.3
        a = torch.randn(1, m, 1, dtype=double, generator=generator)
        patches = torch.randn(1, count, n, d, dtype=double, generator=generator) * 0.3
        labels = torch.arange(count)[None] % 2
        step = torch.full((1, 1, 1), rate, dtype=double)
        rules = JointRules(by_expert(a / kept, [k]), torch.tensor([kept]), step)
        own = patches.permute(0, 2, 1, 3)[:, None].contiguous()
        joint = joint_step(weights, patches, labels, rules)
        cnn = fixed_step(weights[:, None, :m], own, labels, FixedRules(a / n, None, step))
        expected.append((joint, cnn))
        sizes = {"m": m, "k": k, "l": kept, "n": n, "d": d, "count": count, "rate": rate}
        arrays = {"weights": weights, "outputs": a, "patches": patches, "labels": labels}
        asked.append({**sizes, **{name: part.flatten().tolist() for name, part in arrays.items()}})
    for one, (joint, cnn), found in zip(asked, expected, ask(STEPS, asked, "model"), strict=True):
        for name, (weights, loss), told in (("joint", joint, 0), ("cnn", cnn, 1)):
            np.testing.assert_allclose(found[name], weights.flatten(), rtol=0, atol=1e-12, err_msg=f"{seed}")
            assert found["losses"][told]["loss"] == pytest.approx(loss.value.sum().item(), abs=1e-11)
            assert found["losses"][told]["wrong"] == (~loss.right).sum().item()
        mixture, other = found["work"]
        k, kept, n, d, count = (one[name] for name in ("k", "l", "n", "d", "count"))
        routers = k * count * d * (n + (kept if kept > 1 else 0))
        assert (mixture, other) == (2 * m * count * kept * d + routers, 2 * m * count * n * d)


RUNS: Mapping[str, tuple[PatternTask | DigitTask, dict[str, Any]]] = {
    "digits": (DigitTask(), {"patches_per_expert": 4, "experts": 4, "samples": 100, "steps": 60, "trials": 4}),
    "patterns": (PatternTask(), {"patches_per_expert": 6, "experts": 8, "samples": 90, "steps": 100, "trials": 3}),
    "noisy digits": (
        DigitTask(noise=1.0, patches=12),
        {"patches_per_expert": 3, "experts": 4, "samples": 60, "steps": 60, "trials": 2, "neurons": 16},
    ),
    "ends early": (
        DigitTask(patches=4),
        {"patches_per_expert": 2, "experts": 4, "samples": 40, "steps": 400, "trials": 4},
    ),
    "overlap": (
        PatternTask(delta_d=0.5, distractors=6, patches=24, gap=0.6),
        {"patches_per_expert": 2, "experts": 2, "samples": 100, "steps": 50, "trials": 2},
    ),
    "one patch": (
        PatternTask(patches=64),
        {"patches_per_expert": 1, "experts": 8, "samples": 40, "steps": 40, "trials": 1},
    ),
}
WHOLE_RUNS = """
const images = await tasks.Images.unpacked();
const answer = [];
for (const values of asked) {
  const training = new trainer.Training(await tasks.taskOf(values, async () => images), values);
  const records = [training.record()];
  while (!training.ended) { training.advance(); records.push(training.record()); }
  answer.push(records);
}"""


def routed(kept: np.ndarray, patches: np.ndarray) -> np.ndarray:
    """Counts how often each expert is given each of the different patches of an example.

    Equal patches of a digit have equal scores: which of them is routed, rounding decides.
    """
    classes, pixels = len(patches), patches.shape[-1]
    different, which = np.unique(patches.reshape(-1, pixels), axis=0, return_inverse=True)
    each = np.eye(len(different))[which.reshape(classes, -1)]  # (classes, patches, different patches)
    return np.reshape(kept, (classes, -1, each.shape[1])) @ each


def shots(model: JointMoE | CNN, task: PatternTask | DigitTask, values: Mapping[str, Any]) -> list[Snapshot]:
    epochs = steps({**values, "source": "digits"}) // -(-values["samples"] // CNN().batch_size)
    settings = {"trials": values["trials"], "seed": values["seed"], "samples": values["samples"], "epochs": epochs}
    return list(train(model, task, **settings, test_samples=200, record_every=1, precision="float64"))


def test_whole_runs_are_the_librarys_at_every_step(ask: Ask, seed: int) -> None:
    asked = [{**values_of(task), "neurons": 40, **values, "seed": seed} for task, values in RUNS.values()]
    ended_early = False
    for values, (task, _), records in zip(
        asked, RUNS.values(), ask(WHOLE_RUNS, asked, "tasks", "trainer"), strict=True
    ):
        sizes = {name: values[name] for name in ("experts", "patches_per_expert", "neurons")}
        joint = shots(JointMoE(**sizes), task, values)
        cnn = shots(CNN(neurons=values["neurons"]), task, values)
        assert len(records) == max(len(joint), len(cnn)), (values, "the steps that a run takes")
        ended_early |= len(records) <= values["steps"]
        begun = np.array([joint[0]["alignment"]])
        example = joint[0]["example_patches"][0]
        for place, record in enumerate(records):
            mixture, other = joint[min(place, len(joint) - 1)], cnn[min(place, len(cnn) - 1)]
            trials = values["trials"]
            best = mixture["expert_coverage"].max(1)
            for name, expected in {
                "mixture": mixture["test_accuracy"],
                "cnn": other["test_accuracy"],
                "cosines": mixture["alignment"].reshape(trials, -1),
                "coverage": mixture["expert_coverage"][0].ravel(),
                "best": best,
                "example": routed(mixture["example_kept"][0], example),
                "moved": np.abs(mixture["alignment"] - begun).max(),
            }.items():
                said, found = f"{name} at step {place} of {values}", array(record[name])
                found = routed(found, example) if name == "example" else found
                np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9, err_msg=said)
    assert ended_early, "one run at least ends before its last step"


def test_a_trial_whose_loss_becomes_infinite_is_lost_alone(ask: Ask, seed: int) -> None:
    values = {**values_of(PatternTask()), "neurons": 40, "patches_per_expert": 2, "experts": 4, "samples": 40,
              "steps": 40, "trials": 3, "seed": seed}  # fmt: skip
    script = """
    const training = new trainer.Training(await tasks.taskOf(asked, null), asked);
    training.trials[1].mixture.rate = Infinity;
    while (!training.ended) training.advance();
    const answer = training.record();"""
    found = ask(script, values, "tasks", "trainer")
    assert [one is None for one in found["mixture"]] == [False, True, False]
    assert None not in found["cnn"] and found["cosines"][1] == [None] * 8 and found["best"][1] == [None] * 2
    assert found["moved"] > 0


MAPS = [
    {"source": "synthetic", "training": "separate", "patches": 16, "distractors": 2, "gap": 1.0, "delta_d": 0.3},
    {"source": "digits", "training": "separate", "patches": 6, "noise": 0.5},
    {"source": "synthetic", "training": "joint", "patches": 8, "distractors": 1, "gap": 0.8},
    {"source": "digits", "training": "joint", "experts": 2, "patches": 5, "noise": 0.0},
]
WHOLE_MAPS = """
const images = await tasks.Images.unpacked();
const answer = [];
for (const { values, jobs } of asked) {
  const task = await tasks.taskOf(values, async () => images);
  answer.push(jobs.flatMap((job) => Array.from(phase.trainings(task, values, job))));
}"""


def test_maps_are_the_librarys(ask: Ask, seed: int) -> None:
    """All l on two values of N, two trials each: accuracy and coverage of every training."""
    base = {"delta_d": 0.0, "delta_r": 0.6, "noise": 0.3, "distractors": 0, "gap": 0.0, "experts": 4, "trials": 2}
    asked = []
    for own in MAPS:
        values = {**base, **own, "seed": seed}
        counts = [phase_transition.grid_of(values)[1][place] for place in (0, 3)]
        jobs = [{"samples": count, "trial": trial} for count in counts for trial in range(2)]
        asked.append({"values": values, "jobs": jobs})
    for one, found in zip(asked, ask(WHOLE_MAPS, asked, "tasks", "phase"), strict=True):
        values = one["values"]
        kept, _ = phase_transition.grid_of(values)
        counts = tuple(sorted({job["samples"] for job in one["jobs"]}))
        own = {"test_samples": phase_transition.TEST_SAMPLES[values["source"]], "precision": "float64"}
        setting = phase_transition.task_of(values), phase_transition.model_of(values)
        *_, full = phase_records(*setting, kept, counts, 2, seed, **own)
        assert len(found) == full.done.size
        for training in found:
            place = kept.index(training["kept"]), counts.index(training["samples"]), training["trial"]
            for name, expected in (("accuracy", full.test_accuracy), ("coverage", full.coverage)):
                said = f"{name} of {training} with {values}"
                np.testing.assert_allclose(array(training[name]), expected[place], rtol=0, atol=1e-12, err_msg=said)


def test_the_pages_task_is_the_labs(seed: int) -> None:
    """What these tests ask of tasks is what the Lab makes of the page's values."""
    for task in TASKS.values():
        assert task_of({**values_of(task), "seed": seed}) == task
