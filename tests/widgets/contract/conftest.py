"""Every test in this folder runs once for each Lab."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.widgets.cases import CASES, Case
from tests.widgets.labs import Make, done, making


@pytest.fixture(scope="module", params=CASES.values(), ids=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    """A Lab and its settings."""
    found: Case = request.param
    return found


@pytest.fixture
def make(case: Case) -> Iterator[Make]:
    """Makes small Labs, and closes them."""
    with making(case) as make:
        yield make


@pytest.fixture(scope="module")
def ended(case: Case) -> Iterator[Any]:
    """One finished run. Tests that use it must leave it as it was."""
    with making(case) as make:
        yield done(make())
