"""The values of a Lab's knobs, and the widgets that show them: they move together."""

from __future__ import annotations

import math
import numbers
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moe_lab.core.config import require
from moe_lab.core.errors import InputError
from moe_lab.core.scalars import python_of
from moe_lab.core.sentences import brief, no_parameter, shown
from moe_lab_widgets.engine.callbacks import OwnMoves, alone
from moe_lab_widgets.engine.knobs import LabKnob, Values, explain, put, rounded
from moe_lab_widgets.playground.texts import BOTH

RECENTLY = 0.3
"""Seconds in which two moves of a slider are parts of one drag."""
SEED_TIP = "Seed, a whole number. Another seed draws other random numbers: other samples and first weights, same rules."
"""The tooltip of the seed, which every Lab has."""


class KnobBoard:
    """The values of a Lab's knobs and of its seed, and the widgets that show them.

    Args:
      owner: the name of the Lab, for error messages.
      knobs: the declared knobs.
      values: initial values of some knobs; the others take their defaults.
      fit: raises a ValueError if values do not fit together.

    Raises:
      ValueError: a name is unknown, a value is invalid, or the values do not fit together.
    """

    def __init__(
        self,
        owner: str,
        knobs: Sequence[LabKnob],
        values: Values,
        own_moves: OwnMoves,
        fit: Callable[[Values], None] = lambda values: None,
    ) -> None:
        self._owner, self._knobs, self._own_moves, self._fit = owner, knobs, own_moves, fit
        self._asked: tuple[str, Any, float] = ("", None, 0.0)
        self.defaults: dict[str, Any] = {**{knob.name: knob.default for knob in knobs}, "seed": 0}
        values = python_of(dict(values))
        self.check(values)
        whole = {knob.name for knob in knobs if knob.whole and not knob.choices}
        self._values = {**self.defaults, **{n: int(one) if n in whole else one for n, one in values.items()}}
        self._values |= {
            knob.name: knob.follows(self._values) for knob in knobs if knob.follows and knob.name not in values
        }
        fit(self._values)
        self.view_names = {knob.name for knob in knobs if knob.view_only}
        self._sliders = {knob.name: knob.slider for knob in knobs if knob.slider and not knob.choices}
        self._widgets: Mapping[str, Any] = {}

    @property
    def values(self) -> dict[str, Any]:
        """All values. Moves replace them as a whole, so that no lock is needed to read them (see `widgets_lock`)."""
        return dict(self._values)

    def view_of(self, values: Values) -> dict[str, Any]:
        """Returns the values of the view-only knobs."""
        return {name: value for name, value in values.items() if name in self.view_names}

    def needed(self, values: Values) -> dict[str, Any]:
        """Returns those of a state's values that differ from the defaults, or would follow others."""
        follow = {knob.name for knob in self._knobs if knob.follows}
        return {name: value for name, value in values.items() if name in follow or value != self.defaults[name]}

    def attach(self, widgets: Mapping[str, Any]) -> None:
        """Takes the widget of every knob and of the seed."""
        self._widgets = widgets
        explain(widgets["seed"], SEED_TIP)
        self.move({})

    def check(self, values: Values) -> None:
        """Raises a ValueError for an unknown name or a value that is not a number or not one of the choices."""
        values = python_of(dict(values))
        unknown = [name for name in values if name not in self.defaults]
        if unknown:
            symbols = dict.fromkeys(self.defaults, "") | {knob.name: knob.symbol for knob in self._knobs}
            raise InputError(no_parameter(self._owner, unknown[0], symbols))
        if "seed" in values:
            proper = _is_finite(values["seed"]) and float(values["seed"]).is_integer() and values["seed"] >= 0
            require(proper, "seed must be a whole number of at least 0", seed=values["seed"])
        for knob in self._knobs:
            if knob.name not in values:
                continue
            value = values[knob.name]
            if knob.choices:
                because = f", because {knob.reason}" if knob.reason else ""
                rule = f"{knob.title} must be one of {', '.join(map(repr, knob.choices))}{because}"
                require(value in knob.choices, rule, **{knob.name: value})
            else:
                require(_is_finite(value), f"{knob.title} must be a finite number", **{knob.name: value})
                rule = f"{knob.title} must be a whole number"
                require(not knob.whole or float(value).is_integer(), rule, **{knob.name: value})
                rule = f"{knob.title} must be at most {knob.far} in a Lab"
                require(knob.far is None or value <= knob.far, rule, **{knob.name: value})
                rule = f"{knob.title} must be at least {knob.near} in a Lab"
                require(knob.near is None or value >= knob.near, rule, **{knob.name: value})

    @alone
    def move(self, values: Values) -> set[str]:
        """Moves several knobs with their widgets and returns the names of those whose values changed.

        Raises:
          ValueError: a widget cannot take its value.
        """
        return self._move(python_of(dict(values)), self._values)

    def _move(self, values: Values, others: Values) -> set[str]:
        """Moves knobs to some values, beside the values of the others."""
        moved = dict(others)
        try:
            with self._own_moves():
                for name, value in values.items():
                    self._move_widget(name, value)
                    moved[name] = rounded(self._widgets[name].value)
                self._constrain(moved)
        finally:
            self._values = moved
        return {name for name in values if moved[name] != others[name]}

    def _move_widget(self, name: str, value: Any) -> None:
        widget = self._widgets[name]
        try:
            if name in self._sliders:
                put(widget, self._sliders[name], value)
            else:
                with widget.hold_sync():  # a page must not see the new range with the old value
                    if hasattr(widget, "max"):
                        widget.max, widget.min = max(widget.max, value), min(widget.min, value)
                    widget.value = value
        except Exception as error:
            raise InputError(f"the slider of {name} cannot take this value: got {name}={shown(value)}") from error

    @alone
    def moved_by_user(self, name: str) -> tuple[set[str], str]:
        """Takes the value of a widget that the user moved, and moves the knobs that follow it along.

        A slider goes to the nearest value that fits the other knobs.

        Returns:
          The names of all knobs whose values changed, and the rule that kept the slider from where it was moved to.
        """
        before, value = self._values, rounded(self._widgets[name].value)
        if value == before[name]:  # a page that draws a slider sends its value back, off by a rounding error
            return set(), ""
        knob = next((knob for knob in self._knobs if knob.name == name), None)
        rule = ""
        if knob is not None and knob.slider and not knob.choices and not knob.view_only:
            value, rule = self._nearest(knob, value)
            with self._own_moves():
                self._move_widget(name, value)  # where it was typed, the slider may need a finer step
            if value == before[name]:
                return set(), rule
        after = {**before, name: value}
        followers = {
            knob.name: knob.follows(after)
            for knob in self._knobs
            if knob.follows and knob.name != name and before[knob.name] == knob.follows(before)
        }
        return {name, *self._move(followers, after)}, rule

    def typed(self, label: str, number: float) -> tuple[str, str]:
        """Puts the slider with a label at a number that was typed beside it, with steps as fine as that needs.

        Returns:
          The knob's name, to go on as where a user has moved it; and why it stands elsewhere, where it does.
        """
        knob = next(knob for knob in self._knobs if knob.label == label)
        widget, present = self._widgets[knob.name], self._values[knob.name]
        nearest = min(max(number, widget.min), widget.max)
        value = int(nearest) if knob.whole else rounded(float(nearest))
        with self._own_moves():
            self._move_widget(knob.name, value)
        stands = "stays at" if value == present else "is now"
        rule = f"{knob.title} {stands} {value}: its slider goes from {widget.min:.6g} to {widget.max:.6g}"
        return knob.name, "" if nearest == number else rule

    def unread(self, label: str, text: str) -> str:
        """Returns the sentence on a text that was typed for a number and cannot be read as one."""
        knob = next((knob for knob in self._knobs if knob.label == label), None)
        title, present = ("seed", self._values["seed"]) if knob is None else (knob.title, self._values[knob.name])
        kind = BOTH["WHOLE" if knob is None or knob.whole else "NUMBER"]
        return BOTH["UNREAD"].format(title=title, value=present, kind=kind, text=brief(text))

    def _nearest(self, knob: LabKnob, value: Any) -> tuple[Any, str]:
        """Returns the nearest offered value that fits the other knobs, if possible in the direction of the move.

        An arrow key passes the values between that do not fit, and so does a drag, whose direction is that from the
        value that the page asked for last: its slider has been moved elsewhere in the meantime.

        Returns:
          The value, and the rule that the one asked for breaks, in words; empty where it breaks none.
        """
        present, now = self._values[knob.name], time.monotonic()
        name, asked, at = self._asked
        dragged = name == knob.name and now - at < RECENTLY
        if not dragged or value != asked:
            self._asked = (knob.name, value, now)
        refusal = self._refusal(knob, value)
        if not refusal:
            return value, ""
        if dragged and value == asked and not self._refusal(knob, present):
            return present, f"{knob.title} stays at {present}: {refusal}"
        ahead = 1 if value > (asked if dragged else present) else -1
        low, high, step = knob.slider or (value, value, 1)
        offered = [rounded(low + place * step) for place in range(round((high - low) / step) + 1)]
        for other in sorted(offered, key=lambda other: ((other - value) * ahead < 0, abs(other - value))):
            other = int(other) if knob.whole else other
            if not self._refusal(knob, other):
                return other, f"{knob.title} is now {other}: {refusal}"
        return value, ""  # nothing fits, and the run says why

    def _refusal(self, knob: LabKnob, value: Any) -> str:
        """Returns the rule that a value of one knob breaks beside the values of the others; empty where it fits."""
        try:
            self._fit({**self._values, knob.name: value})
        except ValueError as error:
            return str(error)
        return ""

    def _constrain(self, values: dict[str, Any]) -> None:
        """Moves knobs with `at_most` back to their bounds, greys out the knobs that have no effect, and says why.

        Sliders keep their ranges: a page whose slider has changed its range still jumps to the old end on the End key.
        """
        for knob in self._knobs:
            widget = self._widgets[knob.name]
            if knob.at_most is not None:
                most = values[knob.at_most]
                widget.max = max(widget.max, most)
                widget.value = values[knob.name] = min(widget.value, most)
                widget.disabled = most <= widget.min
            if knob.enabled_when is not None:
                widget.disabled = not knob.enabled_when(values)
            explain(widget, knob.tip(enabled=not widget.disabled))


def _is_finite(value: Any) -> bool:
    """Whether a value is a number that a slider can show: a whole one may be too large for that."""
    try:
        return isinstance(value, numbers.Real) and math.isfinite(value)
    except OverflowError:
        return False
