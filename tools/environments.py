"""Makes an environment of another Python or of the oldest versions, and runs the tests there:

    python -m tools.environments 3.12                       newest versions that pyproject.toml allows
    python -m tools.environments 3.11 --oldest              the oldest ones
    python -m tools.environments 3.13 tests/test_config.py  some tests only

Interpreters are those on the path (python3.12) or pyenv's. An environment stays in .environments/ for the next call.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.12", "3.13")
"""What the workflow tests, besides the oldest versions on the first of them."""
QUICK = ("tests", "-m", "not browser and not slow", "--ignore=tests/browser", "-p", "no:nbmake")
"""Without what takes minutes or drives a browser: those depend on versions that the pins have."""


def oldest(project: Path) -> list[str]:
    """Every dependency of a pyproject.toml pinned to the lower end of its range, one pin for each name.

    Where several extras name a package, the highest of their lower ends.
    """
    declared = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    groups: Iterable[list[str]] = [declared["dependencies"], *declared.get("optional-dependencies", {}).values()]
    found: dict[str, str] = {}
    for requirement in (Requirement(text) for group in groups for text in group):
        lower = [one.version for one in requirement.specifier if one.operator == ">="]
        if lower and _key(lower[0]) >= _key(found.get(requirement.name, "0")):
            found[requirement.name] = lower[0]
    return [f"{name}=={version}" for name, version in sorted(found.items())]


def _key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def interpreter(version: str) -> Path:
    """The Python of a version.

    Raises:
      FileNotFoundError: neither the path nor pyenv has one.
    """
    named = shutil.which(f"python{version}")
    own = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/{version}.*/bin/python"))
    for found in (*reversed(own), *([Path(named)] if named else [])):
        if not subprocess.run([found, "-c", "import venv, ensurepip"], capture_output=True).returncode:
            return found
    raise FileNotFoundError(f"Python {version} must be on the path or in pyenv (pyenv install {version}): found none")


def make(version: str, old: bool) -> Path:
    """Makes an environment, or brings it in step with pyproject.toml; returns its Python.

    Raises:
      FileNotFoundError: as `interpreter`.
      subprocess.CalledProcessError: pip finds no such set of versions.
    """
    folder = ROOT / ".environments" / f"{version}-{'oldest' if old else 'newest'}"
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        subprocess.run([interpreter(version), "-m", "venv", folder], check=True)
    install: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if old:
        pins = folder / "oldest.txt"
        pins.write_text("\n".join(oldest(ROOT / "pyproject.toml")) + "\n", encoding="utf-8")
        install += ["--constraint", pins]
    subprocess.run([*install, "--editable", f"{ROOT}[test]"], check=True)
    return python


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.environments", description="Tests other versions.")
    parser.add_argument("python", choices=PYTHONS, help="the version of Python")
    parser.add_argument("--oldest", action="store_true", help="the oldest versions that pyproject.toml allows")
    parser.add_argument("tests", nargs="*", help="arguments of pytest; the quick half of the suite if none is given")
    given, more = parser.parse_known_args(arguments)
    try:
        python = make(given.python, given.oldest)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(str(error))
    quiet = ["-W", "default"] if given.oldest else []  # old packages warn of what newer ones below them will drop
    command = [python, "-m", "pytest", *quiet, *([*given.tests, *more] or QUICK)]
    sys.exit(subprocess.run(command, cwd=ROOT).returncode)


if __name__ == "__main__":
    main()
