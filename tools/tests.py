"""`python -m tools.tests [--fast] [pytest options]`: runs all tests in eight calls of pytest, some of them at once.

With --fast, what can be told within three minutes: the contract of trainings, the room of patches, gradients, and what
Labs and the playground stand on; no browser, no notebook, nothing slow.

As many run as there are cores, and one more, as browsers and kernels wait for one another. What takes longest begins
first, so that all end at about the same time, and what runs on several processes begins while others do. Array shapes
are checked in the rooms' tests alone. The browsers' output is shown as it comes, that of another call when it has
ended. Every process computes on one thread: threads of several wait for one another by turning in circles, which took
three times the work. Compiled modules are kept whatever the shell says: without them every process compiles torch and
pandas anew, 4 seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OF_PAGES = ("live_pages", "playground", "playground_firefox", "playground_map", "without_kernel")
"""The browsers' tests of recorded Labs, which come last: by then others have recorded what they would wait for."""
NOTEBOOKS = ("notebooks", "tests/notebooks")
CONTRACT = ("tests/widgets/contract",)
LABS = ("tests/widgets", f"--ignore={CONTRACT[0]}")
FIGURES = ("tests/trainings", "tests/figures")
PROCESSES = ("tests/papers", "tests/test_benchmarks.py", "tests/course/test_demo.py", "tests/core/test_sweep.py")
"""Tests that start processes of their own."""
HOUSE = ("tests/core", "tests/drawing", "tests/course")
"""What the rooms stand on; beside it, the tests of the whole."""
FAST = (
    (
        "tests/trainings",
        "tests/test_structure.py",
        "tests/test_plain.py",
        "tests/core/test_config.py",
        "tests/test_repo.py",
    ),
    ("tests/patch_routing", "tests/specialization/test_gradients.py", "tests/pruning/test_gradients.py"),
    ("tests/widgets/engine", "tests/widgets/playground"),
)
_UNCHECKED = "--jaxtyping-packages=no_package,tools.checked"
_SPARING = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}


def commands(options: Sequence[str]) -> list[list[str]]:
    """The calls of pytest in the order in which they begin."""
    pytest = [sys.executable, "-m", "pytest", *options]
    apart = (_of_browsers(), NOTEBOOKS, CONTRACT, LABS, PROCESSES, FIGURES)
    taken = {place for places in apart for place in places}
    whole = [place for place in _places("test_*.py") if place not in taken]
    house = [*whole, *HOUSE, *(f"--ignore={place}" for place in PROCESSES if place.startswith(HOUSE))]
    taken |= {*HOUSE, "tests/browser"}
    rooms = [place for place in _places("*/") if place not in taken and any((ROOT / place).rglob("test_*.py"))]
    browsers, notebooks, contract, labs, processes, figures = ([*pytest, _UNCHECKED, *places] for places in apart)
    return [browsers, notebooks, processes, [*pytest, *rooms], labs, [*pytest, _UNCHECKED, *house], contract, figures]


def fast_commands(options: Sequence[str]) -> list[list[str]]:
    """The calls of pytest for a first answer."""
    pytest = [sys.executable, "-m", "pytest", _UNCHECKED, "-m", "not slow and not browser", *options]
    return [[*pytest, *places] for places in FAST]


def _of_browsers() -> list[str]:
    """The browsers' tests in the order in which they run."""
    every = [path.stem.removeprefix("test_") for path in sorted((ROOT / "tests/browser").glob("test_*.py"))]
    return [f"tests/browser/test_{name}.py" for name in sorted(every, key=lambda name: name in OF_PAGES)]


def _places(pattern: str) -> list[str]:
    """What lies in tests/, as pytest is told."""
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").glob(pattern))


def main(options: Sequence[str]) -> int:
    """Runs all to their end, and returns the status of one that failed; 0 for none."""
    fast = "--fast" in options
    options = [one for one in options if one != "--fast"]
    browsers, *others = fast_commands(options) if fast else commands(options)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with ThreadPoolExecutor(cores + 1) as pool:
        shown = pool.submit(subprocess.run, browsers, cwd=ROOT, env=_environment(), check=False)
        statuses = []
        for done in as_completed([pool.submit(_kept, command) for command in others]):
            status, output = done.result()
            print(output, flush=True)
            statuses.append(status)
        statuses.insert(0, shown.result().returncode)
    return next((status for status in statuses if status), 0)


def _kept(command: Sequence[str]) -> tuple[int, str]:
    """Runs a command, and returns its status and all that it has written."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as kept:
        done = subprocess.run(command, cwd=ROOT, env=_environment(), stdout=kept, stderr=subprocess.STDOUT, check=False)
        kept.seek(0)
        return done.returncode, kept.read()


def _environment() -> dict[str, str]:
    return {**os.environ, **_SPARING}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
