"""The setting of the device that every Lab has, and how far sliders reach where there is a GPU."""

from __future__ import annotations

from dataclasses import replace

from moe_lab.core.devices import AUTO, GPU, device_word, no_gpu
from moe_lab_widgets.engine.declaration import Declared
from moe_lab_widgets.engine.knobs import LabKnob


def device_knob(lab: Declared) -> LabKnob:
    """Returns the setting of the device that every Lab has."""
    devices = lab.devices()
    return LabKnob(
        name="device",
        meaning="computes on",
        default=AUTO,
        choices=(AUTO, *devices),
        words={device: device_word(device) for device in devices},
        reason="" if GPU in devices else no_gpu(),
        enabled_when=lambda values: len(devices) > 1,
        effect="A GPU is faster where a step has much to do; auto takes it then.",
        applies="only where there is a GPU to choose",
    )


def offered(lab: Declared) -> tuple[LabKnob, ...]:
    """Returns the knobs of a Lab as this machine offers them: with a GPU, sliders reach their far ends."""
    far = len(lab.devices()) > 1
    return (*(_reaching(knob) if far else knob for knob in lab.knobs), device_knob(lab))


def _reaching(knob: LabKnob) -> LabKnob:
    if knob.far is None or knob.slider is None:
        return knob
    low, _, step = knob.slider
    return replace(knob, slider=(low, knob.far, step))
