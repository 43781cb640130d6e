"""The rules of the specialisation Lab's settings, and its messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from moe_lab_widgets.labs.specialization import KNOBS, SpecializationLab, lowest_accuracy, runs
from tests.widgets.cases import SPECIALIZATION
from tests.widgets.labs import Make, bare, done, fixtures

make, _ = fixtures(SPECIALIZATION)
BARE = bare(SpecializationLab)


def record_every(values: dict[str, Any]) -> int:
    return int(next(iter(BARE.configs(values).values())).record_every)


def code(values: dict[str, Any]) -> str:
    return str(BARE.code(values))


DEFAULTS = {knob.name: knob.default for knob in KNOBS} | {"seed": 0}


def test_all_sliders_at_their_highest_give_a_record_that_is_soon_there() -> None:
    highest = {**DEFAULTS, **{knob.name: knob.slider[1] for knob in KNOBS if knob.slider}}
    assert record_every(highest) >= 1
    assert record_every(DEFAULTS) == DEFAULTS["steps"] // 80 == 5
    assert record_every({**DEFAULTS, "samples": 6000, "trials": 10}) < 5, (
        f"no record takes over {BARE.declaration.slowest} s"
    )


def test_divergence_is_said_and_leaves_the_picture_finite(make: Make) -> None:
    lab = done(make(trials=3))
    for part in lab.record.parts.values():
        part.diverged[[0, 2]] = True
        for value in part.values.values():
            value[[0, 2]] = np.nan
    said = lab.trouble(lab.record)
    assert "The loss of the cubic experts became infinite in trials 1, 3: try smaller steps." in said
    assert "linear experts" in said
    lab.picture.show(lab.record)
    medians = [one for one in lab.picture.laid[1].content if str(one.get_label()).endswith(", median")]
    assert len(medians) == 2 and all(np.isfinite(one.get_ydata()).all() for one in medians)
    assert "–" not in lab.caption(lab.record)
    lab.record.of().values["test_accuracy"][:] = np.nan
    lab.record.of().values["dispatch_entropy"][:] = np.nan
    lab.picture.show(lab.record)
    assert "entropy: – with cubic experts" in lab.caption(lab.record)


def test_both_models_train_on_the_same_samples() -> None:
    study, reference = runs(DEFAULTS).values()
    assert study.replace(model=reference.model) == reference
    assert study.model.replace(activation="linear") == reference.model
    for split in ("train", "test"):
        drawn = [run.task.sample(20, trials=[0, 1], seed=run.seed, split=split).patches() for run in (study, reference)]
        np.testing.assert_array_equal(*drawn)


def test_code_is_short_where_values_are_the_defaults() -> None:
    lines = code(DEFAULTS).splitlines()
    assert "task = ClusterTask()" in lines
    assert "cubic = collect(train(SwitchMoE(filters=8, initial_scale=0.0008), task, **settings))" in lines


@pytest.mark.parametrize(
    "values",
    [{"experts": 3}, {"router_learning_rate": 0.0}, {"noise": 3.0}, {"gamma": 3.0}, {"samples": 400}],
)
def test_the_accuracy_axis_has_room_where_experts_cannot_specialise(values: dict[str, Any]) -> None:
    assert lowest_accuracy(DEFAULTS) == 0.9
    assert lowest_accuracy({**DEFAULTS, **values}) == 0.5
