"""The rules of the specialisation Lab's settings, and its messages."""

from __future__ import annotations

from typing import Any

import pytest

from moe_lab_widgets.drawing.mark_record import MarkValues
from moe_lab_widgets.labs.specialization import KNOBS, SpecializationLab, lowest_accuracy
from tests.widgets.cases import SPECIALIZATION
from tests.widgets.labs import bare, fixtures

make, _ = fixtures(SPECIALIZATION)
BARE = bare(SpecializationLab)


def record_every(values: dict[str, Any]) -> int:
    return int(next(iter(BARE.configs(values).values())).record_every)


def code(values: dict[str, Any]) -> str:
    return str(BARE.code(values))


DEFAULTS = {knob.name: knob.default for knob in KNOBS} | {"seed": 0}


def test_code_is_short_where_values_are_the_defaults() -> None:
    lines = code(DEFAULTS).splitlines()
    assert "task = ClusterTask()" in lines
    assert "cubic = collect(train(SwitchMoE(filters=8, initial_scale=0.0008), task, **settings))" in lines


@pytest.mark.parametrize(
    "values",
    [{"experts": 3}, {"router_learning_rate": 0.0}, {"noise": 3.0}, {"gamma": 3.0}, {"samples": 400}],
)
def test_the_accuracy_axis_has_room_where_experts_cannot_specialise(values: dict[str, Any]) -> None:
    assert float(lowest_accuracy(MarkValues(DEFAULTS))) == 0.9
    assert float(lowest_accuracy(MarkValues({**DEFAULTS, **values}))) == 0.5
