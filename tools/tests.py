"""`python -m tools.tests [pytest options]`: runs all tests as two pytests at once, which takes two cores half the time.

The first runs browsers and notebooks, which keep more than one core busy, and then what takes long beside the rest; the
second runs everything else, in about the same time. The output of the first is shown as it comes, that of the second
when it has ended.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
APART = (
    "tests/browser",
    "tests/notebooks",
    "notebooks",
    "tests/reproduce",
    "tests/test_demo.py",
    "tests/test_package.py",
    "tests/test_sweep.py",
)
"""What the first pytest runs; the second one runs the rest of tests/."""


def commands(options: list[str]) -> list[list[str]]:
    """The two calls of pytest."""
    pytest = [sys.executable, "-m", "pytest", *options]
    rest = [f"--ignore={folder}" for folder in APART if folder.startswith("tests/")]
    return [[*pytest, *APART], [*pytest, "tests", *rest]]


def main(options: list[str]) -> int:
    """Runs both to the end, and fails if either does."""
    first, second = commands(options)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as kept:
        other = subprocess.Popen(second, cwd=ROOT, stdout=kept, stderr=subprocess.STDOUT)
        failed = subprocess.run(first, cwd=ROOT, check=False).returncode
        failed = other.wait() or failed
        kept.seek(0)
        print(kept.read(), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
