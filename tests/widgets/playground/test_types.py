"""The pages' JSDoc types, checked by TypeScript: nothing is compiled, and only this test needs npm."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from moe_lab_widgets.live import page
from moe_lab_widgets.playground import modules

TYPESCRIPT = "typescript@5.9.3"
OPTIONS = {
    "allowJs": True,
    "checkJs": True,
    "noEmit": True,
    "strict": True,
    "noUnusedLocals": True,
    "noUnusedParameters": True,
    "target": "es2022",
    "module": "es2022",
    "lib": ["es2022", "dom", "dom.iterable"],
}


def test_the_types_of_all_modules_fit(tmp_path: Path) -> None:
    npx = shutil.which("npx")
    if npx is None:
        pytest.skip("npm is not installed")
    command = [npx, "--yes", "--package", TYPESCRIPT, "tsc"]
    if subprocess.run([*command, "--version"], capture_output=True, check=False).returncode:
        pytest.skip(f"npm cannot get {TYPESCRIPT}")
    generated = {f"{name}.js": page.modules().source(name) for name in ("declared", "product", "of_page", "of_engine")}
    for path in (*modules.HERE.glob("*.js"), *page.HERE.glob("*.js")):
        shutil.copy(path, tmp_path)
    for name, text in generated.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": OPTIONS, "include": ["*.js"]}))
    found = subprocess.run([*command, "--project", str(tmp_path)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout
