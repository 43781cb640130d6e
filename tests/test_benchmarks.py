"""Every topic of the benchmarks runs from end to end at a tiny size, for figures that mean nothing."""

from __future__ import annotations

import importlib
import json
import math
import re
import shutil
import sys

import pytest

from benchmarks import __main__ as command
from benchmarks import link
from benchmarks.__main__ import TOPICS
from benchmarks.measure import Result
from tests.helpers.effort import one_in, only_thorough

BROWSER = ("browser", "link", "playground")
UNIX = ("hub", "live", "phase_map", "recovery")
"""Those that ask the system for their memory or for the time of their processes."""
TIME = re.compile(r"(?<!')\b(s|ms|us|second)\b")
"""In the unit of a figure that depends on the machine alone."""
IN_BROWSER = [pytest.mark.browser, only_thorough("a minute each, for what tests/browser does too")]
MARKS = {topic: [pytest.mark.slow, *(IN_BROWSER if topic in BROWSER else [])] for topic in TOPICS}
ON_CPUS = [topic for topic in TOPICS if topic != "gpu"]


@pytest.mark.parametrize("topic", [pytest.param(topic, marks=MARKS[topic]) for topic in one_in(2, ON_CPUS, first=1)])
def test_a_topic_measures_all_of_its_figures(topic):
    """That of a GPU has tests of its own, in test_gpu_benchmark.py."""
    if topic in BROWSER and not (shutil.which("chromium") or shutil.which("chromium-browser")):
        pytest.skip("Chromium is not installed")
    if topic in UNIX and sys.platform != "linux":
        pytest.skip("this topic measures on Linux")
    results: list[Result] = importlib.import_module(f"benchmarks.{topic}").run(tiny=True)
    assert len({result.name for result in results}) == len(results) >= 2
    for result in results:
        assert result.value is not None and math.isfinite(result.value), (result.name, result.note)
        assert result.unit or result.name.endswith("frames")
        assert result.target is None or not TIME.search(result.unit), f"{result.name}: seconds are of one machine"
        json.dumps(result.record(f"python -m benchmarks {topic}"))


POSSIBLE = {"bytes": 30_000.0, "fresh_ms": 240.0, "moved_ms": 270.0}


@pytest.mark.parametrize(
    ("rate", "other", "why"),
    [
        ("2", {"bytes": 0.0}, "passed nothing on"),
        ("free", {"bytes": 0.0}, "passed nothing on"),
        ("5", {"bytes": 2_000_000.0}, "at most 625 kB/s"),
        ("20", {"fresh_ms": 60.0}, "80 ms of the way there and back: got fresh_ms = 60"),
        ("2", {"moved_ms": 79.0}, "got moved_ms = 79"),
    ],
)
def test_figures_that_no_such_link_can_give_fail(rate, other, why):
    link.check(rate, POSSIBLE)
    with pytest.raises(RuntimeError, match=why):
        link.check(rate, POSSIBLE | other)


def test_a_topic_that_fails_leaves_the_others_their_figures(monkeypatch, tmp_path, capfd):
    monkeypatch.setattr(command, "FILE", tmp_path / "results.json")
    monkeypatch.setattr(command, "TOPICS", {"nowhere": "a topic without a file", "gpu": "without a GPU"})
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert command.main([]) == 1
    assert "failed with status 1" in capfd.readouterr().out
    assert json.loads((tmp_path / "results.json").read_text())["gpu_trainings_per_second"]["value"] is None


def test_help_lists_the_topics_and_measures_nothing(capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(["--help"])
    told = capsys.readouterr().out
    assert ended.value.code == 0 and all(f"  {topic} " in told and words in told for topic, words in TOPICS.items())


def test_an_unknown_topic_is_a_sentence():
    with pytest.raises(SystemExit, match=r"a topic must be one of step, .*: got speed"):
        command.main(["speed"])
