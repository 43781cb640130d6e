"""The command that adds an extra, for each way in which moe_lab can have been installed; no text has another."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from moe_lab.core.installing import how_to_install, how_to_install_package, required

ROOT = Path(__file__).resolve().parent.parent.parent
WHEEL = "file:///tmp/moe_lab-0.1.0-py3-none-any.whl"
REPOSITORY = "https://github.com/moe-lab/moe_lab"
REQUIRES = ["torch>=2.6", "transformers>=5.23; extra == 'hub'", "safetensors; extra == 'hub'"]


@pytest.fixture
def python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment of its own, in which nothing is installed yet."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    return tmp_path


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, origin: dict[str, Any] | None) -> None:
    """What pip and uv note about moe_lab where they install it (PEP 610)."""
    about = folder / "moe_lab-0.1.0.dist-info"
    about.mkdir()
    lines = ["Metadata-Version: 2.1", "Name: moe-lab", "Version: 0.1.0", *(f"Requires-Dist: {one}" for one in REQUIRES)]
    (about / "METADATA").write_text("\n".join(lines) + "\n")
    if origin is not None:
        (about / "direct_url.json").write_text(json.dumps(origin))
    monkeypatch.syspath_prepend(str(folder))
    assert metadata.version("moe-lab") == "0.1.0"


@pytest.mark.parametrize(
    "origin, expected",
    [
        ({"url": WHEEL, "archive_info": {}}, f'"moe-lab[hub] @ {WHEEL}"'),
        ({"url": "https://host/m.whl", "archive_info": {}}, '"moe-lab[hub] @ https://host/m.whl"'),
        ({"url": "file:///srv/moe_lab", "dir_info": {}}, '"moe-lab[hub] @ file:///srv/moe_lab"'),
        (
            {"url": REPOSITORY, "vcs_info": {"vcs": "git", "requested_revision": "v0.1.0", "commit_id": "c" * 40}},
            f'"moe-lab[hub] @ git+{REPOSITORY}@v0.1.0"',
        ),
        (
            {"url": REPOSITORY, "vcs_info": {"vcs": "git", "commit_id": "c" * 40}, "subdirectory": "a/b"},
            f'"moe-lab[hub] @ git+{REPOSITORY}@{"c" * 40}#subdirectory=a/b"',
        ),
        (None, '"transformers>=5.23" safetensors'),
    ],
    ids=["wheel", "address", "folder", "tag", "commit", "index"],
)
def test_it_comes_from_where_moe_lab_came(python, monkeypatch, origin, expected):
    """Of an index nothing is asked for by our name, which is not ours there: the packages themselves are named."""
    install(monkeypatch, python, origin)
    assert how_to_install("hub") == f"{python}/bin/python -m pip install {expected}"
    assert how_to_install_package("torch", ">=2.6") == f'{python}/bin/python -m pip install "torch>=2.6"'


def test_a_checkout_is_installed_again_with_its_pins(python, monkeypatch):
    checkout = python / "a checkout"
    checkout.mkdir()
    install(monkeypatch, python, {"url": checkout.as_uri(), "dir_info": {"editable": True}})
    start = f"{python}/bin/python -m pip install "
    assert how_to_install("hub") == f'{start}--editable "{checkout}[hub]"'
    (checkout / "constraints.txt").write_text("torch==2.13.0\n")
    assert how_to_install("hub") == f'{start}--constraint "{checkout}/constraints.txt" --editable "{checkout}[hub]"'


def test_uv_is_called_where_uv_made_the_environment(python, monkeypatch):
    install(monkeypatch, python, {"url": WHEEL, "archive_info": {}})
    (python / "pyvenv.cfg").write_text("home = /usr/bin\nuv = 0.9.5\n")
    wanted = f'"moe-lab[hub] @ {WHEEL}"'
    assert how_to_install("hub") == f"uv pip install --python {python}/bin/python {wanted}"
    cached = python / "archive-v0" / "xyz"
    cached.mkdir(parents=True)
    (cached / "pyvenv.cfg").write_text("uv = 0.9.5\n")
    monkeypatch.setattr(sys, "prefix", str(cached))
    assert how_to_install("hub") == f"uvx --from {wanted} moe-lab"
    (cached / "uv-receipt.toml").write_text("")
    assert how_to_install("hub") == f"uv tool install --force {wanted}"


def test_a_notebook_gets_a_line_for_a_cell():
    """In a real kernel, as on Colab, whose cells run a shell's commands behind an exclamation mark."""
    from jupyter_client.manager import run_kernel

    printed: list[str] = []
    with run_kernel() as client:
        code = "from moe_lab.core.installing import how_to_install\nprint(how_to_install('hub'))"
        client.execute_interactive(
            code, output_hook=lambda message: printed.append(message["content"].get("text", "")), timeout=60
        )
    assert "".join(printed).strip() == f"!{how_to_install('hub')}"


def test_every_extra_that_is_asked_for_is_one():
    """And no text but this function's asks an installer for the name on PyPI, until that is ours."""
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    asked: set[str] = set()
    others = []
    for name in filter(None, files.split("\0")):
        path = ROOT / name
        if path.suffix in (".webp", ".png", ".woff2", ".zip", ".npz") or path == Path(__file__) or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        asked |= set(re.findall(r"how_to_install\(['\"](\w+)['\"]\)", text))
        others += [f"{name}: {line.strip()[:150]}" for line in text.splitlines() if _asks_an_index(line)]
    assert all(required(extra) for extra in asked) and {"lab", "hub", "class", "site", "cluster"} <= asked
    assert others == [], "moe_lab.core.installing.how_to_install says how"


NAME = r"""['"]?moe-lab(?!\S* @ )(?![\w-])"""
BY_NAME = re.compile(
    r"""(?:(?:pip3?|pipx|tool) install|uv add)(?: [^\s`'"&;|]+| "[^"]*"| '[^']*')*? """ + NAME + "|--from " + NAME
)


def _asks_an_index(line: str) -> bool:
    """Whether a line installs moe-lab by its name alone. README's says that it is not there yet."""
    return len(line) < 1000 and BY_NAME.search(line) is not None and "is not on PyPI yet" not in line


@pytest.mark.parametrize(
    "line, wrong",
    [
        ("pip install 'moe-lab[lab]'", True),
        ("pip install moe-lab", True),
        ('run `%pip install --quiet "moe-lab[hub]" here`', True),
        ('uvx --from "moe-lab[lab,hub]" moe-lab lab', True),
        ("uv add moe-lab", True),
        ('pip install "moe-lab[hub] @ git+https://github.com/moe-lab/moe_lab@v1"', False),
        ('uvx --from "dist/moe_lab-0.1.0-py3-none-any.whl[lab,hub]" moe-lab lab', False),
        ('pip install --editable ".[lab]" && moe-lab lab', False),
        ("install it with the command that `moe-lab doctor` prints", False),
    ],
)
def test_what_asks_an_index_for_the_name_is_found(line, wrong):
    assert _asks_an_index(line) == wrong
