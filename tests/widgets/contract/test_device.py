"""The setting `device` of every Lab: what it offers, what it refuses, and when copied code names it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from moe_lab.devices import TRAININGS, Work, no_gpu
from moe_lab_widgets.engine import placing
from tests.widgets.cases import Case, one_case_in
from tests.widgets.labs import FAST, Make, done, making, shown

CUDA = torch.cuda.is_available()


@pytest.fixture(scope="module")
def held(case: Case) -> Iterator[Any]:
    """A Lab that shows its first record. Tests leave it as it was."""
    with making(case) as make:
        yield shown(make(playing=False))


def test_the_device_is_offered_below_the_other_settings(held: Any) -> None:
    lab = held
    control, gpu = lab.controls.knobs["device"], CUDA and not lab.cpu_because
    assert [word for word, _ in control.options] == ["auto", "CPU", *["GPU"] * gpu]
    assert control in lab.controls._rest.children and control not in lab.controls._main.children
    assert control.disabled == (not gpu)
    said = control.tooltip if control.has_trait("tooltip") else control.description_tooltip  # ipywidgets 8, or 7
    assert (said or "") == ("" if gpu else lab.cpu_because or no_gpu())
    assert lab.values["device"] == "auto"
    work = lab.work(lab.values)
    many = f"{work.steps} trainings" if work.unit == TRAININGS else f"{work.trials} trial"
    assert f"CPU: {many}" in lab.controls.status.value or CUDA, "it says what computes"


def test_what_is_not_there_is_refused_in_a_sentence(case: Case) -> None:
    reason = case.kind.cpu_because or no_gpu()
    if CUDA and not case.kind.cpu_because:
        pytest.skip("this machine has a GPU")
    with pytest.raises(ValueError, match="device must be one of 'auto', 'cpu', because") as refused:
        case.kind(device="cuda")
    assert str(refused.value).endswith(f"because {reason}: got device='cuda'")
    with pytest.raises(ValueError, match="device must be one of"):
        case.kind(device="GPU")


def test_copied_code_names_a_device_that_was_chosen(case: Case, held: Any) -> None:
    lab = held
    assert "device" not in lab.code(lab.values)
    if case.name == "DeepPruneLab":
        return  # whose functions have no device
    for device in ("cpu", "cuda"):
        code = lab.code({**lab.values, "device": device})
        assert f"device='{device}'" in code or f'device="{device}"' in code
    trials = next(knob for knob in case.kind.knobs if knob.name == "trials")
    assert f"trials={trials.slider[1]}" in lab.code({**lab.values, "trials": trials.slider[1]})


@one_case_in(3, 2)
def test_a_run_that_is_measured_on_two_devices_gives_the_same_numbers(
    case: Case, ended: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Both devices are the CPU here, and the second starts late, so that the run goes on while the other is tried."""
    if case.kind.cpu_because:
        pytest.skip(case.kind.cpu_because)
    begun: list[str] = []

    def start(self: Any, values: dict[str, Any]) -> Iterator[Any]:
        begun.append(values["device"])
        return late(case.kind.start(self, {**values, "device": "cpu"}), 0.2 * (values["device"] == "cuda"))

    double = type(case.name, (case.kind,), {"start": start, "devices": lambda self: ("cpu", "cuda")})
    monkeypatch.setattr(placing, "ENOUGH", 0.01)
    monkeypatch.setenv("MOE_LAB_CACHE", str(tmp_path))
    measured = double(**case.small)  # runs are short while `ended` is there
    try:
        measured.controls.speed.value = FAST
        done(measured)
        assert begun[:2] == ["cpu", "cuda"] and (tmp_path / "devices" / "speeds.json").exists()
        theirs, ours = (lab.data(lab.records) for lab in (measured, ended))
        assert theirs.equals(ours)
        assert measured.caption(measured.record) == ended.caption(ended.record)
    finally:
        measured.close()


def late(run: Iterator[Any], seconds: float) -> Iterator[Any]:
    """The run, after a real wait."""
    time.sleep(seconds)
    yield from run


def test_work_grows_with_the_trials(case: Case, held: Any) -> None:
    knobs = {knob.name: knob for knob in case.kind.knobs}
    if "trials" not in knobs or knobs["trials"].far is None:
        pytest.skip("its trials have no far end")
    little, much = (held.work({**case.defaults, "trials": trials}) for trials in (10, knobs["trials"].far))
    assert isinstance(little, Work) and little.steps > 0 and much.bucket > little.bucket + 2
    assert much.kind == little.kind and much.size / little.size == pytest.approx(knobs["trials"].far / 10, rel=0.2)


@pytest.mark.skipif(not CUDA, reason="no GPU here")
def test_a_run_on_the_gpu_agrees_with_the_cpu(case: Case, make: Make) -> None:
    if case.kind.cpu_because:
        pytest.skip(case.kind.cpu_because)
    import numpy as np

    runs = {device: done(make(device=device)) for device in ("cpu", "cuda")}
    assert "GPU: " in runs["cuda"].controls.status.value
    for theirs, ours in zip(*(list(lab.data(lab.records).data_vars.values()) for lab in runs.values()), strict=True):
        assert theirs.dims == ours.dims and theirs.shape == ours.shape
        assert np.isfinite(theirs).mean() == pytest.approx(np.isfinite(ours).mean(), abs=0.1)
    first = {device: lab.data(lab.records[:1]) for device, lab in runs.items()}
    for name, values in first["cpu"].data_vars.items():
        np.testing.assert_allclose(first["cuda"][name], values, rtol=0.05, atol=0.05, err_msg=str(name))
