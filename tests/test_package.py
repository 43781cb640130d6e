"""What gets installed: names, versions, the wheel and what travels inside it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import moe_lab
from moe_lab.registry import NOTEBOOKS
from moe_lab_papers import Claim, claims


def run(*arguments: str, **changes: str) -> str:
    """A fresh Python's output."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env={**os.environ, **changes}, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def pins(path: Path) -> dict[str, str]:
    lines = [line.split("#")[0].strip() for line in path.read_text().splitlines()]
    found = [re.fullmatch(r"([A-Za-z0-9._-]+)==([^=<>~!*,;\s]+)", line) for line in lines if line and line[0] != "-"]
    assert all(found), "a line is not name==version"
    return {normal(pin[1]): pin[2] for pin in found if pin}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def project(root: Path) -> dict:
    return tomllib.loads((root / "pyproject.toml").read_text())


class TestNames:
    def test_version_is_the_same_everywhere(self, root):
        assert version("moe-lab") == moe_lab.__version__
        assert f"version: {moe_lab.__version__}\n" in (root / "CITATION.cff").read_text()
        assert f"\n## {moe_lab.__version__} (" in (root / "CHANGELOG.md").read_text()
        assert f"dist/moe_lab-{moe_lab.__version__}-py3-none-any.whl" in (root / "README.md").read_text()

    def test_every_public_name_is_there(self):
        assert {name: getattr(moe_lab, name) for name in moe_lab.__all__}.keys() <= set(dir(moe_lab))

    def test_unknown_name_is_an_attribute_error(self):
        with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
            _ = moe_lab.no_such_name

    def test_import_loads_nothing_heavy(self):
        heavy = "{'torch', 'numpy', 'xarray', 'matplotlib', 'pydantic', 'IPython'}"
        assert run("-c", f"import sys, moe_lab; print(sorted({heavy} & set(sys.modules)))") == "[]\n"

    def test_the_library_imports_no_other_package(self, root):
        sources = list((root / "moe_lab").rglob("*.py"))
        assert sources
        others = r"^\s*(from|import) (moe_lab_widgets|moe_lab_papers|moe_lab_hub|ipywidgets)"
        assert not [path for path in sources if re.search(others, path.read_text(), re.M)]


class TestVersions:
    def test_every_requirement_is_pinned_inside_its_range(self, root, project):
        pinned = pins(root / "constraints.txt")
        extras = [line for lines in project["project"]["optional-dependencies"].values() for line in lines]
        asked = [Requirement(text) for text in (*project["project"]["dependencies"], *extras)]
        wrong = [
            str(one)
            for one in asked
            if one.name != "moe-lab" and not one.specifier.contains(pinned.get(normal(one.name), "0"), prereleases=True)
        ]
        assert len(asked) > 20
        assert wrong == []

    def test_pins_carry_no_local_build(self, root):
        assert [name for name, pin in pins(root / "constraints.txt").items() if "+" in pin] == []

    def test_binder_takes_the_cpu_build_of_the_pinned_torch(self, root):
        assert pins(root / "binder/requirements.txt") == {"torch": f"{pins(root / 'constraints.txt')['torch']}+cpu"}


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run("-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(root))
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel alone in a folder, without the checkout."""
    folder = tmp_path_factory.mktemp("installed")
    run("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(folder), str(wheel))
    return folder


class TestWheel:
    def test_holds_all_packages_and_the_notebooks_and_nothing_else(self, wheel, root):
        names = zipfile.ZipFile(wheel).namelist()
        assert {name.split("/")[0] for name in names} == {
            "moe_lab",
            "moe_lab_hub",
            "moe_lab_papers",
            "moe_lab_widgets",
            f"moe_lab-{moe_lab.__version__}.dist-info",
        }
        expected = {f"moe_lab/_notebooks/{path.name}" for path in (root / "notebooks").glob("*.ipynb")}
        expected |= {"moe_lab/_notebooks/instructors_guide.md"}
        assert expected <= set(names)
        ours = ("labconfig/page_config.json", "kernels/python3/kernel.json")
        config = {f"moe_lab/course/jupyter_config/{name}" for name in ours}
        assert {f"moe_lab_papers/{name}" for name in ("report.html", "claims.html", "claims.schema.json")} <= set(names)
        assert {"moe_lab_widgets/engine/lab.css", "moe_lab_widgets/frames/page/screen.js"} <= set(names)
        pages = {f"moe_lab_widgets/{name}" for name in ("playground/page.css", "live/live.html", "live/run.js")}
        assert pages <= set(names)
        assert {"moe_lab/py.typed", "moe_lab_widgets/__init__.py", *config} <= set(names)
        assert any(name.endswith("/LICENSE") for name in names)
        assert not [name for name in names if "__pycache__" in name or ".ipynb_checkpoints" in name]

    def test_works_on_its_own(self, installed, tmp_path):
        code = (
            "import moe_lab, moe_lab_widgets; from pathlib import Path; from moe_lab.course import copies;"
            "print(moe_lab.__file__); print(moe_lab_widgets.__file__); print(copies.notebooks_folder());"
            "print(len(copies.copy_course(Path('mine')).new))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(installed)},
            capture_output=True,
            text=True,
            check=True,
        )
        *places, copied = done.stdout.split()
        assert all(Path(place).is_relative_to(installed) for place in places)
        mine = {path.suffix for path in (tmp_path / "mine").glob("[!.]*")}
        assert int(copied) == len(list((tmp_path / "mine").glob("[!.]*"))) > 0 and mine == {".ipynb", ".md"}
        assert int(copied) == len(NOTEBOOKS) + 2  # and the index, and the guide

    @pytest.mark.slow
    def test_shows_the_demo_without_a_network(self, installed, tmp_path):
        """The whole of it: a new process, imports, six trainings of five trials, three files."""
        assert self.said(installed, tmp_path, "demo", "--seed", "2").startswith(str(installed))
        assert {path.name for path in tmp_path.iterdir()} == {"demo.png", "demo.nc", "demo.json"}

    @pytest.mark.slow
    def test_writes_the_pages_of_the_playground_without_a_network(self, installed, tmp_path):
        for page, more in (("playground.html", ()), ("specialization.html", ("specialization",))):
            said = self.said(installed, tmp_path, "playground", "--out", ".", *more)
            assert said.startswith(str(installed)) and (tmp_path / page).stat().st_size > 50_000

    @pytest.mark.slow
    def test_reproduces_a_claim_without_a_network(self, installed, tmp_path):
        cheap = min((c for c in claims() if c.paper == "pmoe2023" and c.measurement.needs is None), key=_seconds)
        said = self.said(installed, tmp_path, "reproduce", cheap.id, "--jobs", "1", "--out", "report")
        assert said.startswith(str(installed))
        assert {"report.html", "results.json"} <= {path.name for path in (tmp_path / "report").iterdir()}

    @staticmethod
    def said(installed: Path, folder: Path, *arguments: str) -> str:
        """What the command of the wheel prints in a new process that has no network; it must not warn."""
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", NO_NETWORK, *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(installed), "COLUMNS": "100"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert arguments[0] != "demo" or done.stderr == ""
        return done.stdout


def _seconds(claim: Claim) -> float:
    return claim.measurement.seconds[0]


NO_NETWORK = """
import socket, sys

def refuse(*arguments, **options):
    raise OSError("there is no network")

socket.getaddrinfo = socket.create_connection = socket.socket.connect = refuse
import moe_lab
from moe_lab.cli import main
print(moe_lab.__file__, flush=True)
main(sys.argv[1:])
"""
