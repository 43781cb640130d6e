"""The playground's modules in node."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from moe_lab_widgets.playground.modules import Modules


def answered(script: str, asked: Any, *needed: str, modules: Modules, folder: Path) -> Any:
    """What a script that imports some modules prints as JSON, when it reads what is asked as JSON.

    Skips the test where node is not installed.
    """
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    modules.written(folder, *needed)
    (folder / "ask.js").write_text(script)
    done = subprocess.run(
        [node, "ask.js"], input=json.dumps(asked), capture_output=True, text=True, cwd=folder, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
