"""What the tests of the specialisation Lab share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from moe_lab_widgets import SpecializationLab
from tests.widgets.labs import ended, making

SMALL = {"trials": 2, "steps": 20, "samples": 200}
Make = Callable[..., SpecializationLab]


@pytest.fixture
def make() -> Iterator[Make]:
    with making(SpecializationLab, SMALL) as make:
        yield make


def done(lab: SpecializationLab) -> SpecializationLab:
    """Waits for the end of the run."""
    return ended(lab, 120)
