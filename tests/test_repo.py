"""The checkout: names that must agree, pairs in step, and nothing in it that does not belong."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import jupytext
import nbformat
import pytest

from tools import badges, owner, pairs, tests
from tools.notebooks import MOST_BYTES

ROOT = Path(__file__).resolve().parent.parent
PAIRS = sorted((ROOT / "notebooks").glob("*.py"))
# Every way in which a link names a repository. Links to other projects are made with words, not addresses.
LINK = re.compile(r"(?:github\.com/|/github/|/v2/gh/)([\w.-]+/[\w.-]+?)(?=\.git\b|[@/)\s\"'#,>`]|$)")


def tracked() -> list[Path]:
    """The files that git keeps."""
    if not (ROOT / ".git").exists():
        pytest.skip("this copy is not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).exists()]


def repositories(folder: Path) -> dict[str, set[str]]:
    """The repository names in links, by file."""
    files = [folder / name for name in badges.NAMING] + sorted((folder / "notebooks").glob("*.[ipm]*"))
    links = {path.relative_to(folder).as_posix(): set(LINK.findall(path.read_text(encoding="utf-8"))) for path in files}
    return {name: found for name, found in links.items() if found}


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
        assert all("-q" in call for call in calls) and "tests/browser/test_every_lab.py" in calls[0]

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
        course = {f"notebooks/{name}" for name in ("README.md", "00_start_here.py", "00_start_here.ipynb")}
        assert {"README.md", "CITATION.cff", *course} <= set(found)
        assert set.union(*found.values()) == {badges.repository(ROOT)}

    def test_the_page_of_the_course_opens_every_notebook_of_the_release(self):
        repo, ref = badges.repository(ROOT), badges.release(ROOT)
        table = badges.table(repo, ref)
        assert table.count(f"https://colab.research.google.com/github/{repo}/blob/{ref}/") == len(PAIRS)
        assert table.count(f"https://mybinder.org/v2/gh/{repo}/{ref}?") == len(PAIRS)
        assert table in (ROOT / badges.COURSE).read_text(encoding="utf-8"), "`make badges` writes the table"

    @pytest.mark.parametrize("path", PAIRS, ids=lambda path: path.stem)
    def test_badges_setup_and_solutions_are_as_stamped(self, path):
        stamped, stored = jupytext.read(path), jupytext.read(path)
        badges.stamp(stamped, badges.repository(ROOT), badges.release(ROOT), f"{path.stem}.ipynb")
        found = [[(cell.source, cell.metadata) for cell in notebook.cells] for notebook in (stamped, stored)]
        assert found[0] == found[1], "`make badges` writes them"

    def test_rename_reaches_every_link(self, tmp_path):
        for name in badges.NAMING:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
        shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
        badges.rename(tmp_path, "some-one/else.where")
        badges.stamp_notebooks(tmp_path)
        badges.stamp_course(tmp_path)
        pairs.bring_in_step(tmp_path)
        assert set.union(*repositories(tmp_path).values()) == {"some-one/else.where"}
        badges.rename(tmp_path, badges.repository(ROOT))
        assert all((tmp_path / name).read_text() == (ROOT / name).read_text() for name in badges.NAMING)

    @pytest.mark.parametrize("name", ["", "owner", "owner/", "/name", "a/b/c", "a b/c", "https://github.com/a/b"])
    def test_a_wrong_name_is_a_sentence(self, tmp_path, name):
        with pytest.raises(ValueError, match="REPO must be owner/name: got"):
            badges.rename(tmp_path, name)

    @pytest.mark.parametrize("ref", ["v1.2.3", "v1.2.3rc1", "0123456789" * 4])
    def test_a_release_reaches_badges_and_set_up_cells(self, tmp_path, ref):
        shutil.copy(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
        badges.set_release(tmp_path, ref)
        assert badges.release(tmp_path) == ref and badges.repository(tmp_path) == badges.repository(ROOT)
        assert f"@{ref}" in badges.setup_cell("owner/name", ref)
        assert badges.badges("owner/name", ref, "a.ipynb").count(f"/{ref}") == 2

    @pytest.mark.parametrize("ref", ["", "main", "master", "HEAD", "0123abc", "v1", "v1.2.3/x", "refs/heads/main"])
    def test_a_branch_is_no_release(self, tmp_path, ref):
        with pytest.raises(ValueError, match=r"REF must be a tag such as v0\.2\.0 or the 40 digits of a commit: got"):
            badges.set_release(tmp_path, ref)

    @pytest.mark.parametrize("given", [{}, {"GITHUB_REPOSITORY": "owner/name"}])
    def test_its_publisher_may_use_it(self, given):
        owner.check("owner/name", given)

    def test_elsewhere_the_workflow_stops_and_says_what_mends_it(self):
        """It runs before anything is installed: with the standard library alone, which -S and -I leave."""
        command = [sys.executable, "-S", "-I", str(ROOT / "tools" / "owner.py")]
        environment = {**os.environ, "GITHUB_REPOSITORY": "some-one/else.where"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "make badges REPO=some-one/else.where" in done.stderr
        workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
        assert "python3 tools/owner.py" in workflow


class TestWorkflows:
    FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))

    @pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
    def test_actions_are_pinned_by_commit_with_the_version_beside_it(self, path):
        used = re.findall(r"uses: (.+)", path.read_text(encoding="utf-8"))
        assert used and [one for one in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)] == []

    def test_no_push_measures_all_claims(self):
        text = (ROOT / ".github" / "workflows" / "site.yml").read_text(encoding="utf-8")
        assert "moe-lab reproduce" in text and "branches:" not in text and "cancel-in-progress: false" in text

    def test_a_release_is_what_its_badges_open(self):
        assert 'ref = \\"$GITHUB_REF_NAME\\"' in (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")


class TestSetupCell:
    def test_does_nothing_elsewhere(self, monkeypatch):
        monkeypatch.setattr(subprocess, "run", lambda *a, **k: pytest.fail("it ran something"))
        exec(badges.setup_cell("owner/name", "v1.2.3"), {})

    @pytest.mark.parametrize("path", PAIRS, ids=lambda path: path.stem)
    def test_says_what_it_installs_and_takes_no_branch(self, path):
        (cell,) = (one for one in jupytext.read(path).cells if "setup" in one.metadata.get("tags", []))
        repo, ref = badges.repository(ROOT), badges.release(ROOT)
        assert f"installs moe_lab {ref} from github.com/{repo}" in cell.source
        assert f'git+https://github.com/{repo}@{ref}"' in cell.source and 'print(f"Installing {source}")' in cell.source

    @pytest.mark.parametrize(
        ("extra", "package"),
        [
            ("", "git+https://github.com/owner/name@v1.2.3"),
            ("hub", "moe-lab[hub] @ git+https://github.com/owner/name@v1.2.3"),
        ],
    )
    def test_on_colab_keeps_what_colab_has(self, monkeypatch, tmp_path, capsys, extra, package):
        recorder = tmp_path / "python"
        recorder.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/asked\n')
        recorder.chmod(0o755)
        monkeypatch.setitem(sys.modules, "google.colab", sys)
        monkeypatch.setattr(sys, "executable", str(recorder))
        exec(badges.setup_cell("owner/name", "v1.2.3", extra), {})
        asked = (tmp_path / "asked").read_text().splitlines()
        assert asked[:3] == ["-m", "pip", "install"]
        assert package in asked and capsys.readouterr().out == f"Installing {package}\n"
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
        ours = [
            path for path in ours if path.parts[0] in ("moe_lab", "widgets", "papers", "hub", "tools", "benchmarks")
        ]
        assert len(ours) > 20
        assert {path.as_posix(): n for path in ours if (n := lines(ROOT / path)) > 400} == {}

    def test_ci_and_binder_scripts_can_run(self):
        for name in (".ci/run", "binder/postBuild", "binder/start"):
            path = ROOT / name
            assert path.stat().st_mode & 0o111 == 0o111, name
            subprocess.run(["bash", "-n", str(path)], check=True)


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())
