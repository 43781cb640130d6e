"""Fails on GitHub where pyproject.toml names another repository:  python tools/owner.py

Badges, links and the notebooks' set-up cells name the repository and the release of [tool.moe_lab]. Readers run what
they find there, so that both must belong to whoever publishes the course. The workflow runs this before it installs
anything, so that it needs the standard library alone.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def _setting(root: Path, name: str) -> str:
    return str(tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["moe_lab"][name])


def repository(root: Path = ROOT) -> str:
    """The repository's name, as "owner/name"."""
    return _setting(root, "repo")


def release(root: Path = ROOT) -> str:
    """The tag or commit that badges open and that set-up cells install."""
    return _setting(root, "ref")


def check(named: str, environment: Mapping[str, str]) -> None:
    """Compares the repository's name with that of the repository whose workflow runs.

    Raises:
      SystemExit: they differ.
    """
    here = environment.get("GITHUB_REPOSITORY", named)
    if here != named:
        sys.exit(
            f"[tool.moe_lab] repo in pyproject.toml must be the repository that publishes the course, {here}: got "
            f"{named}. Run `make badges REPO={here}` and commit what it changes."
        )


if __name__ == "__main__":
    check(repository(), os.environ)
