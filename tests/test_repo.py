"""The checkout: names that must agree, pairs in step, and nothing in it that does not belong."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import jupytext
import nbformat
import pytest

from tools import badges, pairs, tests
from tools.notebooks import MOST_BYTES

ROOT = Path(__file__).resolve().parent.parent
PAIRS = sorted((ROOT / "notebooks").glob("*.py"))
# Every way in which a link names a repository. Links to other projects are made with words, not addresses.
LINK = re.compile(r"(?:github\.com/|/github/|/v2/gh/)([\w.-]+/[\w.-]+?)(?=\.git\b|[/)\s\"'#,>`]|$)")


def tracked() -> list[Path]:
    """The files that git keeps."""
    if not (ROOT / ".git").exists():
        pytest.skip("this copy is not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).exists()]


def repositories(folder: Path) -> dict[str, set[str]]:
    """The repository names in links, by file."""
    files = [folder / name for name in badges.NAMING] + sorted((folder / "notebooks").glob("*.[ip]*"))
    return {path.name: found for path in files if (found := set(LINK.findall(path.read_text())))}


class TestCalls:
    def test_every_test_is_in_one_of_them(self, root):
        calls = tests.commands(["-q"])
        files: list[Path] = []
        for call in calls:
            left_out = [root / name.removeprefix("--ignore=") for name in call if name.startswith("--ignore=")]
            for path in (root / name for name in call if name.startswith("tests/")):
                found = [path] if path.is_file() else path.rglob("test_*.py")
                files += [file for file in found if not any(file.is_relative_to(place) for place in left_out)]
        assert sorted(files) == sorted((root / "tests").rglob("test_*.py"))
        assert sum("notebooks" in call for call in calls) == 1
        assert all("-q" in call for call in calls) and "tests/browser" in calls[0]

    @pytest.mark.parametrize(
        ("first", "others", "failed"),
        [(0, (0, 0), 0), (1, (0, 0), 1), (0, (1, 0), 1), (0, (0, 3), 3), (5, (2, 0), 5)],
    )
    def test_fails_if_one_call_does(self, monkeypatch, capfd, first, others, failed):
        code = "import sys; print('call', sys.argv[1]); sys.exit(int(sys.argv[1]))"
        calls = [[sys.executable, "-c", code, str(status)] for status in (first, *others)]
        monkeypatch.setattr(tests, "commands", lambda options: calls)
        assert tests.main([]) == failed
        said = capfd.readouterr().out.split("\n")
        assert sorted(filter(None, said)) == sorted(f"call {one}" for one in (first, *others))


class TestName:
    def test_every_link_names_the_same_repository(self):
        found = repositories(ROOT)
        assert {"README.md", "CITATION.cff", "00_start_here.py", "00_start_here.ipynb"} <= set(found)
        assert set.union(*found.values()) == {badges.repository(ROOT)}

    def test_readme_opens_every_notebook(self):
        table = badges.table(badges.repository(ROOT))
        assert table.count("https://colab.research.google.com/github/") == len(PAIRS) == table.count("mybinder.org/v2/")
        assert table in (ROOT / "README.md").read_text(), "`make badges` writes the table"

    @pytest.mark.parametrize("path", PAIRS, ids=lambda path: path.stem)
    def test_badges_setup_and_solutions_are_as_stamped(self, path):
        stamped, stored = jupytext.read(path), jupytext.read(path)
        badges.stamp(stamped, badges.repository(ROOT), f"{path.stem}.ipynb")
        found = [[(cell.source, cell.metadata) for cell in notebook.cells] for notebook in (stamped, stored)]
        assert found[0] == found[1], "`make badges` writes them"

    def test_rename_reaches_every_link(self, tmp_path):
        for name in badges.NAMING:
            shutil.copy(ROOT / name, tmp_path / name)
        shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
        badges.rename(tmp_path, "some-one/else.where")
        badges.stamp_notebooks(tmp_path, badges.repository(tmp_path))
        pairs.bring_in_step(tmp_path)
        assert set.union(*repositories(tmp_path).values()) == {"some-one/else.where"}
        badges.rename(tmp_path, badges.repository(ROOT))
        assert all((tmp_path / name).read_text() == (ROOT / name).read_text() for name in badges.NAMING)

    @pytest.mark.parametrize("name", ["", "owner", "owner/", "/name", "a/b/c", "a b/c", "https://github.com/a/b"])
    def test_a_wrong_name_is_a_sentence(self, tmp_path, name):
        with pytest.raises(ValueError, match="REPO must be owner/name: got"):
            badges.rename(tmp_path, name)


class TestSetupCell:
    def test_does_nothing_elsewhere(self, monkeypatch):
        monkeypatch.setattr(subprocess, "run", lambda *a, **k: pytest.fail("it ran something"))
        exec(badges.setup_cell("owner/name"), {})

    @pytest.mark.parametrize(
        ("extra", "package"),
        [
            ("", "git+https://github.com/owner/name"),
            ("hub", "moe-lab[hub] @ git+https://github.com/owner/name"),
        ],
    )
    def test_on_colab_keeps_what_colab_has(self, monkeypatch, tmp_path, extra, package):
        recorder = tmp_path / "python"
        recorder.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/asked\n')
        recorder.chmod(0o755)
        monkeypatch.setitem(sys.modules, "google.colab", sys)
        monkeypatch.setattr(sys, "executable", str(recorder))
        exec(badges.setup_cell("owner/name", extra), {})
        asked = (tmp_path / "asked").read_text().splitlines()
        assert asked[:3] == ["-m", "pip", "install"]
        assert package in asked
        assert {f"{name}=={version(name)}" for name in ("torch", "numpy", "ipywidgets")} <= set(asked)


class TestPairs:
    def test_there_are_notebooks(self):
        assert len(PAIRS) >= 4
        assert [path.stem for path in PAIRS] == [path.stem for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]

    @pytest.mark.parametrize("path", PAIRS, ids=lambda path: path.stem)
    def test_cells_are_the_same(self, path):
        source, stored = jupytext.read(path), nbformat.read(path.with_suffix(".ipynb"), as_version=4)
        assert [(cell.cell_type, cell.source) for cell in source.cells] == [
            (cell.cell_type, cell.source) for cell in stored.cells
        ]


class TestFiles:
    def test_no_generated_file_is_kept(self):
        tracked()
        command = ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"]
        assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout == ""

    def test_no_file_is_large(self):
        assert [path.name for path in tracked() if path.stat().st_size > MOST_BYTES] == []

    def test_no_path_of_one_machine(self):
        places = [rf"(?<![\w.]){re.escape('/' + place + '/')}" for place in ("root", "work", "home", "Users", "opt")]
        forbidden = re.compile("|".join(places))
        guilty = [path.name for path in tracked() if forbidden.search(path.read_text(errors="replace"))]
        assert guilty == []

    def test_python_files_stay_small(self):
        ours = [path.relative_to(ROOT) for path in tracked() if path.suffix == ".py"]
        ours = [path for path in ours if path.parts[0] in ("moe_lab", "widgets", "tools", "benchmarks")]
        assert len(ours) > 20
        assert {path.as_posix(): n for path in ours if (n := lines(ROOT / path)) > 400} == {}

    def test_ci_and_binder_scripts_can_run(self):
        for name in (".ci/run", "binder/postBuild", "binder/start"):
            path = ROOT / name
            assert path.stat().st_mode & 0o111 == 0o111, name
            subprocess.run(["bash", "-n", str(path)], check=True)


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())
