"""The playground's modules in node."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from moe_lab_widgets.playground.bundle import HERE, Modules


def answered(
    script: str,
    asked: Any,
    *needed: str,
    generated: Mapping[str, str],
    folder: Path,
    sources: Sequence[Path] = (HERE,),
) -> Any:
    """What a script that imports some modules prints as JSON, when it reads what is asked as JSON.

    Skips the test where node is not installed.

    Args:
      sources: the folders of the modules.
    """
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    modules = Modules(generated, sources)
    for name in modules.needed(*needed):
        (folder / f"{name}.js").write_text(modules.source(name), encoding="utf-8")
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "ask.js").write_text(script)
    done = subprocess.run(
        [node, "ask.js"], input=json.dumps(asked), capture_output=True, text=True, cwd=folder, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
