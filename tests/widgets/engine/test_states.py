"""The state of a run that those who show it read."""

from __future__ import annotations

import pytest

from moe_lab_widgets.engine.recorder import Recorder
from moe_lab_widgets.engine.states import Phase, RunState


@pytest.mark.parametrize("phase", Phase)
def test_a_run_is_finished_once_it_has_ended_and_no_other_was_asked_for(phase: Phase) -> None:
    run = RunState(Recorder())
    run.generation = run.begun = 1
    run.phase = phase
    assert run.finished == (phase in (Phase.ENDED, Phase.REPORTED))
    run.generation += 1  # asked for, and not yet begun
    assert not run.finished
