"""What every test shares. moe_lab is imported by tests only, so that its shapes are checked (see pyproject.toml)."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.chromium import CHROMIUM_FLAGS, chromium


def pytest_collection_finish() -> None:
    """Leaves what is imported by now out of Python's searches for cycles, which would go through it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(autouse=True, scope="session")
def _one_torch_thread() -> Iterator[None]:
    """Small steps run many times slower on several threads than on one."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def float64() -> Iterator[None]:
    """Trainings compute in float64 whatever they are asked for: two that differ by rounding alone stay together.

    In float32 they part, on one processor and not on another, as fast as the training is unstable.
    """
    import torch

    from moe_lab.core import trials

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials, "choose_dtype", lambda precision, device: torch.float64)
        yield


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Models that tests pre-train, and processes that tests start, stay out of the user's cache.

    What is recorded of Labs for their pages is shared with other tests, which would wait minutes for the same.
    """
    folder, pages = tmp_path_factory.mktemp("cache"), Path(__file__).resolve().parent.parent / ".pages"
    pages.mkdir(exist_ok=True)
    (folder / "pages").symlink_to(pages)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOE_LAB_CACHE", str(folder))
        yield


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


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, steered by Playwright."""
    path = chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=list(CHROMIUM_FLAGS))
        yield started
        started.close()
