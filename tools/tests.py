"""`python -m tools.tests [pytest options]`: runs all tests in two halves at once, which takes two cores half the time.

The first half runs browsers and notebooks, which keep more than one core busy, and then what takes long beside the
rest; the second runs everything else, in about the same time: the Labs' tests, then those of the library. Array shapes
are checked in the library's alone; in the others it would cost a third of their time. The output of the first half is
shown as it comes, that of the second when it has ended.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
APART = (
    "tests/browser",
    "tests/notebooks",
    "notebooks",
    "tests/reproduce",
    "tests/test_demo.py",
    "tests/test_sweep.py",
)
"""What the first pytest runs; the second one runs the rest of tests/."""


LABS = "tests/widgets"
_UNCHECKED = "--jaxtyping-packages=no_package,tools.checked"


def commands(options: list[str]) -> tuple[list[str], list[list[str]]]:
    """The call of pytest of the first half, and those of the second."""
    pytest = [sys.executable, "-m", "pytest", *options]
    rest = [f"--ignore={folder}" for folder in (*APART, LABS) if folder.startswith("tests/")]
    return [*pytest, _UNCHECKED, *APART], [[*pytest, _UNCHECKED, LABS], [*pytest, "tests", *rest]]


def main(options: list[str]) -> int:
    """Runs both to the end, and fails if either does."""
    first, second = commands(options)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as kept, ThreadPoolExecutor(1) as pool:
        others = pool.submit(_one_by_one, second, kept)
        failed = subprocess.run(first, cwd=ROOT, check=False).returncode
        failed = others.result() or failed
        kept.seek(0)
        print(kept.read(), flush=True)
    return failed


def _one_by_one(commands: list[list[str]], output: IO[str]) -> int:
    """Runs all commands, and returns the status of the last one that failed; 0 for none."""
    statuses = [
        subprocess.run(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
        for command in commands
    ]
    return next((status for status in reversed(statuses) if status), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
