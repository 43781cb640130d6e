"""Runs go where they are faster by what was measured, and long ones say so first. Both devices here are the CPU.

One of the two is made slower by a wrapper that really waits before each record.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import torch

from moe_lab import devices
from moe_lab.devices import Speed, Speeds, Stopwatch, Work, fastest
from moe_lab.training import Snapshot
from moe_lab_widgets import offer
from tests.widgets.engine.tiny import Blobs, TinyLab

FAST = "as fast as it trains"
WORK = Work(kind="blobs", size=100.0, steps=50)


class TwoDevices(TinyLab):
    """A tiny Lab on two devices. Every record takes 4 ms, and on the slower device 20 ms more."""

    knobs = (*TinyLab.knobs[:-3], offer(Blobs, "epochs", far=20_000), *TinyLab.knobs[-2:])
    slower: ClassVar[str] = "cpu"

    def __init__(self, **values: Any) -> None:
        self.begun: list[str] = []
        super().__init__(**{"delay": 4.0, **values})
        self.controls.speed.value = FAST

    def devices(self) -> tuple[str, ...]:
        return "cpu", "cuda"

    def work(self, values: Any) -> Work:
        return Work(kind="blobs", size=float(values["samples"]), steps=values["epochs"], trials=6)

    def start(self, values: dict[str, Any]) -> Iterator[Snapshot]:
        self.begun.append(values["device"])
        return self._slowed(super().start(values)) if values["device"] == self.slower else super().start(values)

    @staticmethod
    def _slowed(run: Iterator[Snapshot]) -> Iterator[Snapshot]:
        for record in run:
            time.sleep(0.02)
            yield record


class SlowGPU(TwoDevices):
    slower = "cuda"


class OneDevice(TwoDevices):
    def devices(self) -> tuple[str, ...]:
        return ("cpu",)


@pytest.fixture(autouse=True)
def _nothing_measured(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOE_LAB_CACHE", str(tmp_path))


@pytest.mark.parametrize(
    "kind, first, word", [(TwoDevices, ["cpu", "cuda", "cuda"], "GPU"), (SlowGPU, ["cpu", "cuda"], "CPU")]
)
def test_auto_takes_what_is_measured_as_faster_and_remembers_it(
    kind: type[TwoDevices], first: list[str], word: str
) -> None:
    for begun in (first, first[-1:] if word == "GPU" else ["cpu"]):  # the second Lab reads what the first has stored
        lab = kind(epochs=200)
        try:
            assert lab.wait(60) and lab.finished
            assert lab.begun == begun
            assert [record.step for record in lab.records] == list(range(201)), "a run from its start to its end"
            assert f"{word}: 6 trials, " in lab.controls.status.value and " steps/s" in lab.controls.status.value
        finally:
            lab.close()


def test_a_device_that_is_named_is_taken_and_a_failing_one_is_left() -> None:
    class Failing(TwoDevices):
        def start(self, values: dict[str, Any]) -> Iterator[Snapshot]:
            if values["device"] == "cuda":
                raise RuntimeError("out of memory")
            return super().start(values)

    named, failing = TwoDevices(epochs=20, device="cuda"), Failing(epochs=60)
    try:
        assert named.wait(30) and named.begun == ["cuda"] and "GPU: 6 trials" in named.controls.status.value
        assert failing.wait(30) and failing.finished and failing.error is None
        assert failing.begun == ["cpu"] and "CPU: 6 trials" in failing.controls.status.value
        named.controls.story.value = "Far apart"
        assert named.values["device"] == "cuda", "a story keeps the device"
    finally:
        named.close()
        failing.close()


def test_a_long_run_beyond_the_usual_range_says_its_seconds_and_waits_for_play() -> None:
    lab = OneDevice(epochs=10_000)
    try:
        assert lab.controls.knobs["epochs"].max == 10_000, "a slider holds its value; its usual range ends at 200"
        assert lab.wait(30) and not lab.records and not lab.playing and not lab.finished
        said = lab.controls.message.value
        assert "press Play" in said and "on the CPU (6 trials, " in said
        minutes = int(said.split(" minutes")[0].split()[-1])
        assert 3 <= minutes <= 8, "10,000 steps of 24 ms and more"
        lab.pause()
        assert lab.wait(30) and not lab.records
        lab.play()
        end = time.monotonic() + 20
        while len(lab.records) < 3:
            assert time.monotonic() < end, "Play starts it"
            time.sleep(0.01)
        lab.set(epochs=9_000)
        assert lab.wait(30) and not lab.records, "every such run asks"
        lab.set(epochs=20)
        assert lab.wait(30) and lab.finished and lab.record.step == 20, "and the next one that is usual runs by itself"
    finally:
        lab.close()
    with pytest.raises(ValueError, match="epochs must be at most 20000 in a Lab: got epochs=20001"):
        OneDevice(epochs=20_001)


def test_a_run_beyond_the_usual_range_says_its_seconds_before_it_starts() -> None:
    """One that is worth waiting for starts all the same; one within the range answers at once and says nothing."""
    lab = OneDevice(epochs=300)
    try:
        end = time.monotonic() + 60
        while not lab.records:
            assert time.monotonic() < end, "nothing asks for Play"
            time.sleep(0.01)
        said = lab.controls.cost.value
        assert "This run takes up to about " in said and " seconds on the CPU (6 trials, " in said
        assert int(said.split(" seconds")[0].split()[-1]) >= 7, "300 steps of 24 ms and more"
        assert lab.controls.message.value == "" and lab.playing
        lab.set(epochs=20)
        assert lab.wait(60) and lab.finished and lab.controls.cost.value == ""
    finally:
        lab.close()


def test_a_long_run_starts_where_it_is_expected_to_be_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a thread, as in a headless notebook: the measurement, the question and the run inside the calls."""
    monkeypatch.setenv("MOE_LAB_HEADLESS", "1")
    lab = TwoDevices(epochs=10_000)
    try:
        assert lab.begun == ["cpu", "cpu", "cuda", "cuda"], "checked, then measured on both, then begun on the faster"
        assert "on the GPU (6 trials, " in lab.controls.message.value and not lab.records
        lab.set(epochs=300)
        assert lab.begun[4:] == ["cuda"], "both are known, and two seconds ask nothing"
        assert lab.finished and "GPU: 6 trials" in lab.controls.status.value
        lab.set(epochs=150, samples=20)
        assert lab.begun[5:] == ["cpu", "cuda", "cuda"] and lab.finished, "another size is measured on its own"
    finally:
        lab.close()


def test_with_a_gpu_sliders_reach_further() -> None:
    near, far = OneDevice(playing=False), TwoDevices(playing=False)
    try:
        assert (near.controls.knobs["epochs"].max, far.controls.knobs["epochs"].max) == (200, 20_000)
        choices = {name: lab.controls.knobs["device"] for name, lab in (("near", near), ("far", far))}
        assert [label for label, _ in choices["far"].options] == ["auto", "CPU", "GPU"]
        assert [label for label, _ in choices["near"].options] == ["auto", "CPU"]
        assert choices["near"].disabled and not choices["far"].disabled
        hint = "tooltip" if choices["near"].has_trait("tooltip") else "description_tooltip"  # before ipywidgets 8
        assert getattr(choices["near"], hint) == devices.no_gpu() and not getattr(choices["far"], hint)
    finally:
        near.close()
        far.close()


@pytest.mark.parametrize("there, words", [(False, "no GPU that torch can use"), (True, "(MPS) is not offered")])
def test_a_mac_is_told_why_its_gpu_is_not_offered(monkeypatch: pytest.MonkeyPatch, there: bool, words: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: there)
    lab = OneDevice(playing=False)
    try:
        control = lab.controls.knobs["device"]
        said = control.tooltip if control.has_trait("tooltip") else control.description_tooltip
        assert words in said and control.disabled and [label for label, _ in control.options] == ["auto", "CPU"]
    finally:
        lab.close()
    with pytest.raises(ValueError, match="device must be one of 'auto', 'cpu', because this machine") as refused:
        OneDevice(device="mps")
    assert words in str(refused.value) and len(str(refused.value)) <= 300


# ---- what was measured ----


def test_speeds_are_stored_whole_and_a_broken_file_is_measured_anew(tmp_path: Any) -> None:
    path = tmp_path / "devices" / "speeds.json"
    first = Speeds(path)
    first.put(WORK, "cpu", Speed(100.0, 0.1, 0.01))
    first.store()
    other = Speeds(path)
    assert other.get(WORK, "cpu") == Speed(100.0, 0.1, 0.01) and fastest(other, WORK, ("cpu", "cuda")) is None
    other.put(WORK, "cuda", Speed(100.0, 0.7, 0.001))
    other.store()
    first.put(Work(kind="other", size=1.0, steps=1), "cpu", Speed(1.0, 0.0, 1.0))
    first.store()
    assert fastest(Speeds(path), WORK, ("cpu", "cuda")) == "cpu", ".1 + 50 * .01 s against .7 + 50 * .001 s"
    longer = Work(kind="blobs", size=110.0, steps=100)
    assert fastest(Speeds(path), longer, ("cpu", "cuda")) == "cuda", "1.1 s against .8 s, at a size in the same bucket"
    whole = path.read_text()
    for broken in (whole[:50], "", "[]", whole.replace("0.01", '"fast"'), whole.replace("0.01", "NaN"), "\x00" * 9):
        path.write_text(broken)
        again = Speeds(path)
        assert again.get(WORK, "cpu") is None
        again.put(WORK, "cpu", Speed(100.0, 0.2, 0.02))
        again.store()
        assert Speeds(path).get(WORK, "cpu") == Speed(100.0, 0.2, 0.02)
    path.write_text(path.read_text().replace(devices._machine()[-1], "0.0"))
    assert Speeds(path).get(WORK, "cpu") is None, "another machine's"
    assert [one.name for one in path.parent.iterdir()] == ["speeds.json"], "no part of a file stays"


def test_what_to_expect_of_a_size_grows_from_the_nearest_smaller_one(tmp_path: Any) -> None:
    speeds = Speeds(tmp_path / "speeds.json")
    for size, step in ((10.0, 0.001), (1000.0, 0.05)):
        speeds.put(Work(kind="blobs", size=size, steps=1), "cpu", Speed(size, 0.5, step))
    expected = {size: speeds.about(Work(kind="blobs", size=size, steps=1), "cpu") for size in (5.0, 100.0, 4000.0)}
    assert expected[5.0] == Speed(5.0, 0.5, 0.001) and expected[100.0] == Speed(100.0, 5.0, 0.01)
    assert expected[4000.0] == Speed(4000.0, 2.0, 0.2) and speeds.about(WORK, "cuda") is None


def test_a_stopwatch_counts_the_time_of_steps_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(devices.time, "perf_counter", lambda: now)

    def run() -> Iterator[float]:
        nonlocal now
        for takes, done in ((0.05, 0), (0.05, 10), (0.02, 20), (0.02, 20), (0.02, 40), (0.3, 40)):
            now += takes
            yield done

    watch = Stopwatch(lambda done: done)
    for _ in watch.follow(run()):
        now += 0.01  # what is done with a record is no step
    speed = watch.speed(3.0)
    assert speed is not None and speed.size == 3.0
    assert speed.start == pytest.approx(0.1) and speed.step == pytest.approx(0.06 / 30)
