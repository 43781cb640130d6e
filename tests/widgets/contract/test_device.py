"""The setting `device` of every Lab: what it offers, what it refuses, and when copied code names it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from moe_lab.core import devices
from moe_lab.core.devices import no_gpu
from tests.widgets.cases import Case, one_case_in
from tests.widgets.labs import Make, done, making, shown

CUDA = torch.cuda.is_available()


@pytest.fixture(scope="module")
def held(case: Case) -> Iterator[Any]:
    """A Lab that shows its first record. Tests leave it as it was."""
    with making(case) as make:
        yield shown(make(playing=False))


def within(widget: Any) -> Iterator[Any]:
    """A widget and all in it, as they stand one below the other."""
    yield widget
    for child in getattr(widget, "children", ()):
        yield from within(child)


def test_the_device_is_offered_below_the_other_settings(held: Any) -> None:
    lab = held
    control = lab.controls.knobs["device"]
    assert [word for word, _ in control.options] == ["auto", "CPU", *["GPU"] * CUDA]
    order = list(within(lab.controls.box))
    assert order.index(control) == max(order.index(knob) for knob in lab.controls.knobs.values())
    assert control.disabled == (not CUDA)
    said = control.tooltip if control.has_trait("tooltip") else control.description_tooltip  # ipywidgets 8, or 7
    assert CUDA or f"because {no_gpu()}" in said
    assert lab.values["device"] == "auto"
    assert "on the CPU" in lab.controls.status.value, "it says what computes"


def test_what_is_not_there_is_refused_in_a_sentence(case: Case) -> None:
    if CUDA:
        pytest.skip("this machine has a GPU")
    with pytest.raises(ValueError, match="device must be one of 'auto', 'cpu', because") as refused:
        case.kind(device="cuda")
    assert str(refused.value).endswith(f"because {no_gpu()}: got device='cuda'")
    with pytest.raises(ValueError, match="device must be one of"):
        case.kind(device="GPU")


def test_copied_code_names_a_device_that_was_chosen(case: Case, held: Any) -> None:
    lab = held
    assert "device" not in lab.code(lab.values)
    for device in ("cpu", "cuda"):
        code = lab.code({**lab.values, "device": device})
        assert f"device='{device}'" in code or f'device="{device}"' in code
    trials = next(knob for knob in case.kind.knobs if knob.name == "trials")
    assert f"trials={trials.slider[1]}" in lab.code({**lab.values, "trials": trials.slider[1]})


@one_case_in(3, 2)
def test_auto_is_the_librarys_rule_and_code_names_what_it_chose(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU is a name here, which is heard, and then the CPU computes."""
    begun: list[str] = []

    def start(self: Any, values: dict[str, Any]) -> Iterator[Any]:
        begun.append(values["device"])
        return case.kind.start(self, {**values, "device": "cpu"})

    double = type(case.name, (case.kind,), {"start": start, "devices": lambda self: ("cpu", "cuda")})
    monkeypatch.setattr(devices, "gpu_usable", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a name")
    with case.short_runs():
        lab = double(**case.small, playing=False)
        try:
            touched = lab.work(lab.values)
            for worth, device, word in ((touched + 1, "cpu", "CPU"), (touched, "cuda", "GPU")):
                monkeypatch.setattr(devices, "WORTH_A_GPU", worth)
                lab.reset()
                lab.wait(60)
                assert begun[-1] == device and f"on the {word}" in lab.controls.status.value
                assert re.search(f"device=(&#x27;|&quot;){device}", lab.controls.code.value), "code names the device"
                assert lab.values["device"] == "auto"
        finally:
            lab.close()


def test_work_grows_with_the_trials(case: Case, held: Any) -> None:
    knobs = {knob.name: knob for knob in case.kind.knobs}
    if "trials" not in knobs or knobs["trials"].far is None or case.name == "PatchMapLab":
        pytest.skip("its trials have no far end, or step one after another")
    little, much = (held.work({**case.defaults, "trials": trials}) for trials in (10, knobs["trials"].far))
    assert little > 0 and 0.3 < much / little / (knobs["trials"].far / 10) < 1.2, "products of numbers may be left out"


@pytest.mark.skipif(not CUDA, reason="no GPU here")
def test_a_run_on_the_gpu_agrees_with_the_cpu(case: Case, make: Make) -> None:
    import numpy as np

    runs = {device: done(make(device=device)) for device in ("cpu", "cuda")}
    assert "GPU: " in runs["cuda"].controls.status.value
    for theirs, ours in zip(*(list(lab.data(lab.records).data_vars.values()) for lab in runs.values()), strict=True):
        assert theirs.dims == ours.dims and theirs.shape == ours.shape
        assert np.isfinite(theirs).mean() == pytest.approx(np.isfinite(ours).mean(), abs=0.1)
    first = {device: lab.data(lab.records[:1]) for device, lab in runs.items()}
    for name, values in first["cpu"].data_vars.items():
        np.testing.assert_allclose(first["cuda"][name], values, rtol=0.05, atol=0.05, err_msg=str(name))
