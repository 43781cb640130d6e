"""Where a Lab is shown decides how its picture is kept."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from IPython.core.interactiveshell import InteractiveShell

from moe_lab_widgets.engine.output import in_vs_code


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    made = InteractiveShell.instance()
    yield made
    InteractiveShell.clear_instance()


def test_vs_code_is_known_by_what_it_tells_a_kernel(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VSCODE_PID", raising=False)
    assert not in_vs_code()
    shell.user_ns["__vsc_ipynb_file__"] = "lesson.ipynb"
    assert in_vs_code()


def test_vs_code_is_known_by_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VSCODE_PID", "1")
    assert in_vs_code()
