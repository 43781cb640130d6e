"""For every item that pytest collects: tests, and the notebooks that `make test` runs beside them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """In a notebook, Labs train inside the cell, and an error in a Lab fails its cell."""
    if item.path.suffix != ".ipynb":
        return (yield)
    before = os.environ.get("MOE_LAB_HEADLESS")
    os.environ["MOE_LAB_HEADLESS"] = "1"
    try:
        return (yield)
    finally:
        if before is None:
            del os.environ["MOE_LAB_HEADLESS"]
        else:
            os.environ["MOE_LAB_HEADLESS"] = before
