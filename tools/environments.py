"""Makes an environment of another Python or of the oldest versions, and runs the tests there:

    python -m tools.environments 3.12                       newest versions that pyproject.toml allows
    python -m tools.environments 3.11 --oldest              the oldest ones
    python -m tools.environments 3.13 tests/core/test_config.py  some tests only

uv makes them, and finds the interpreter, or downloads it. An environment stays in .environments/ for the next call.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""What the workflow tests, besides the oldest versions on the first of them."""
QUICK = ("tests", "-m", "not browser and not slow", "--ignore=tests/browser")
"""Without what takes minutes or drives a browser: those depend on versions that the pins have."""


def make(version: str, old: bool) -> Path:
    """Makes an environment, or brings it in step with pyproject.toml; returns its Python.

    Raises:
      subprocess.CalledProcessError: there is no such Python, or no such set of versions; uv has said why.
    """
    folder = ROOT / ".environments" / f"{version}-{'oldest' if old else 'newest'}"
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        _uv("venv", "--quiet", "--seed", "--python", version, str(folder))  # with pip, which tests of the wheel call
    lowest = ["--resolution", "lowest-direct"] if old else []
    _uv("pip", "install", "--quiet", "--python", str(python), *lowest, "--editable", f"{ROOT}[test]")
    return python


def _uv(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "uv", *arguments], check=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.environments", description="Tests other versions.")
    parser.add_argument("python", choices=PYTHONS, help="the version of Python")
    parser.add_argument("--oldest", action="store_true", help="the oldest versions that pyproject.toml allows")
    parser.add_argument("tests", nargs="*", help="arguments of pytest; the quick half of the suite if none is given")
    given, more = parser.parse_known_args(arguments)
    try:
        python = make(given.python, given.oldest)
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
    quiet = ["-W", "default"] if given.oldest else []  # old packages warn of what newer ones below them will drop
    command = [python, "-m", "pytest", *quiet, *([*given.tests, *more] or QUICK)]
    sys.exit(subprocess.run(command, cwd=ROOT).returncode)


if __name__ == "__main__":
    main()
