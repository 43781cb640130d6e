"""All figures are computed in float64, since tests compare trials, calls and cells to rounding."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def _in_float64(float64: None) -> None:
    """For every file, as they share the Datasets."""
