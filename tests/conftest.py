"""What every test shares. moe_lab is imported by tests only, so that its shapes are checked (see pyproject.toml)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True, scope="session")
def _one_torch_thread() -> Iterator[None]:
    """Small steps run many times slower on several threads than on one."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data(root: Path) -> Path:
    """A folder of real data sets beside the checkout, or the one that MOE_LAB_DATA names."""
    folder = Path(os.environ.get("MOE_LAB_DATA", root.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no data sets in {folder}; MOE_LAB_DATA names another folder")
    return folder
