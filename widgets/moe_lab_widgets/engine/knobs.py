"""Knobs of a Lab: how they are declared, and how their values and widgets move together."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeVar

from moe_lab.core.config import Config
from moe_lab.core.devices import AUTO, GPU
from moe_lab.core.knobs import Knob
from moe_lab.core.scalars import python_of

RARELY = "rarely"
"""Among the values of a run at the fastest speed, which measures rarely: testing would take most of its time."""
FEW_RECORDS, PATIENT = 12, 4.0
"""Records of a run that measures rarely, and how much longer one may take than at other speeds."""

OWN = "own"
"""The choice of a knob that is a function of the user's."""
MORE_TRIALS = "More trials make medians steadier and the run slower."
"""The effect of the number of trials, the same in all Labs."""
ANOTHER_TRIAL = "Shows another of the trials, in which other random numbers were drawn; nothing is trained anew."
"""The effect of the number of the trial on show."""

AnyConfig = TypeVar("AnyConfig", bound=Config)
Values = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class LabKnob(Knob):
    """A knob of a Lab.

    Attributes:
      enabled_when: whether the knob has an effect, given all values; its widget is greyed out if not.
      follows: the default, given all values. When the user moves a knob, those at their defaults follow.
      at_most: the name of a knob whose value this one must not exceed.
      main: whether the knob is above the picture, and not under "more settings".
      view_only: whether the knob changes the picture but not the run.
      near: the smallest value, where no Config declares one.
      far: the largest value; beyond the slider's end only a GPU answers immediately.
      words: the labels of choices, where they differ from the values.
      reason: why there are no other choices.
      effect: a sentence on the effect of a larger value, or of another choice.
      applies: when it has an effect, as in "only to synthetic patches"; shown where it is greyed out.
    """

    enabled_when: Callable[[Values], bool] | None = None
    follows: Callable[[Values], Any] | None = None
    at_most: str | None = None
    main: bool = False
    view_only: bool = False
    near: float | None = None
    far: float | None = None
    words: Mapping[Any, str] = field(default_factory=dict)
    reason: str = ""
    effect: str = ""
    applies: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("near", "far"):
            object.__setattr__(self, name, python_of(getattr(self, name)))

    def tip(self, enabled: bool = True) -> str:
        """Returns the tooltip: why the knob is greyed out, if it is; what it means, its range, and its effect."""
        symbol = f" ({self.symbol})" if self.symbol else ""
        sentences = (
            f"Greyed out: it applies {self.applies}." if self.applies and not enabled else "",
            f"{self.meaning[0].upper()}{self.meaning[1:]}{symbol}{self._range()}.",
            self.effect,
            f"There is no other choice, because {self.reason}." if self.reason else "",
        )
        return " ".join(filter(None, sentences))

    def _range(self) -> str:
        """Returns what the widget offers, in words."""
        if self.choices:
            return f": {', '.join(self.words.get(one, str(one)) for one in self.choices)}"
        if self.slider:
            low, high, _ = self.slider
            return f", from {low:.6g} to {high:.6g}".replace("-", "−")
        return ", on or off"


def offer(config: type[Config], name: str, /, **changes: Any) -> LabKnob:
    """Returns a declared parameter of a Config as a knob, with some attributes changed.

    Raises:
      ValueError: the Config declares no such parameter.
    """
    declared = config.knobs()
    if name not in declared:
        raise ValueError(f"an offered knob must be one of {config.__name__}'s ({', '.join(declared)}): got {name!r}")
    attributes = {field.name: getattr(declared[name], field.name) for field in dataclasses.fields(Knob)}
    return LabKnob(**{**attributes, **changes})


def config_from(config: type[AnyConfig], values: Values, /, **more: Any) -> AnyConfig:
    """Returns a Config with those values that it declares, and with `more`."""
    declared = config.knobs()
    return config(**{**{name: value for name, value in values.items() if name in declared}, **more})


def device_setting(values: Values) -> dict[str, str]:
    """Returns the setting `device` of the values for `train`; empty on "auto", which is the default there too."""
    device = values.get("device", AUTO)
    return {} if device == AUTO else {"device": device}


def stretched(slider: tuple[float, float, float], *values: float) -> tuple[float, float, float]:
    """Returns a slider's range and step, made so wide and so fine that it can stand at each of the values.

    A page rounds what stands between two steps, and sends that back as if the user had moved the slider.
    """
    low, _, step = (Fraction(str(number)) for number in slider)
    exact = [Fraction(str(rounded(value))) for value in values]
    for distance in (value - low for value in exact):
        step = Fraction(
            math.gcd(step.numerator * distance.denominator, distance.numerator * step.denominator),
            step.denominator * distance.denominator,
        )
    return min(slider[0], *values), max(slider[1], *values), float(step)


def readout_format(step: float) -> str:
    """Returns how the number beside a slider is written: with all digits of a value that the slider can stand at."""
    digits = len(f"{step:.9f}".rstrip("0").partition(".")[2])
    return f".{digits}f"


def put(widget: Any, slider: tuple[float, float, float], value: float) -> None:
    """Sets a slider to a value, with the range and step that the value needs.

    A page takes the parts of one message in any order, and would round a value that comes before its step. So first
    comes a step on which the old and the new value stand, then the value, and then its own step.
    """
    low, high, step = stretched(slider, value, widget.min)
    with widget.hold_sync():
        widget.max, widget.min = max(widget.max, high), low
        widget.step = stretched(slider, value, widget.min, widget.value)[2]
        if getattr(widget, "readout_format", "d") != "d":  # which an IntSlider has
            widget.readout_format = readout_format(step)
    widget.value = value
    widget.step = step


def on_gpu(values: Values) -> bool:
    """Whether a run computes on a GPU, where records need not be small for a slider to be answered soon."""
    return bool(values.get("device") == GPU)


def record_count(records: int, values: Values) -> int:
    """Returns about how many records a run makes: the usual number, or a few where it measures rarely."""
    return min(records, FEW_RECORDS) if values.get(RARELY) else records


def time_limit(seconds: float, values: Values) -> float:
    """Returns how many seconds of steps a record may hold: the usual ones, or more where the run measures rarely."""
    return seconds * PATIENT if values.get(RARELY) else seconds


def arguments(values: Values) -> str:
    """Returns values as keyword arguments in Python, as in "samples=100, seed=0"."""
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


TOOLTIPS = ("tooltip", "description_tooltip")
"""How ipywidgets 8 and 7.7 call what a pointer is told; a button of 7.7 has both."""


def explain(widget: Any, tip: str) -> None:
    """Sets the tooltip of a widget."""
    for name in TOOLTIPS:
        if widget.has_trait(name):
            widget.set_trait(name, tip)


def rounded(value: Any) -> Any:
    """Returns a number without what is left of a sum of a slider's steps; other values as they are."""
    return round(value, 9) if isinstance(value, float) else value
