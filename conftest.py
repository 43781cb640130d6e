"""How pytest tests notebooks: nbmake runs each of them once, and the run must give the outputs that it stores.

And how often it checks array shapes: in the first calls of each function in each test.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest
from nbmake.nb_result import NotebookError, NotebookResult
from nbmake.pytest_items import NotebookFailedException, NotebookItem

# Nothing here may import moe_lab: its shapes are checked only if it is imported later (see pyproject.toml).
from tests.helpers.effort import THOROUGH
from tools.outputs import ENVIRONMENT, differences, tidy_notebook
from tools.pairs import read
from tools.runtime_types import check_first_calls, new_test

if not THOROUGH:
    check_first_calls()

# Jupyter's folders follow the platform; without this it warns, and a warning is an error here.
os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")


def pytest_runtest_setup() -> None:
    """Has array shapes checked anew in every test."""
    new_test()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Has nbmake run a copy of the notebook, and compares the outputs of that run with the stored ones."""
    if not isinstance(item, NotebookItem):
        return (yield)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        copy = shutil.copy(item.path, folder)
        patch.setattr(item, "filename", str(copy))
        patch.setattr(item.config.option, "overwrite", True)
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        result = yield
        run = tidy_notebook(read(copy))
    if sentences := list(differences(read(item.path), run)):
        summary = "the notebook must store the outputs of a run: `make notebooks`"
        raise NotebookFailedException(NotebookResult(run, NotebookError(summary, "\n".join([summary, *sentences]), -1)))
    return result
