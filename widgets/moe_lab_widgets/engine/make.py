"""Makes a Lab of a declaration: knobs, what runs, and panels that draw.

Your own::

    MyLab = lab("What moves", train, knobs=(slider("rate", 0.1, 0.01, 1), ...), panels=(Panel("Loss", draw_loss),))

`train` is any function that yields records (dicts, Snapshots, objects); it is called with the knobs that it names.

Of the library::

    SpecializationLab = lab("Specialization", runs=runs, knobs=..., panels=..., caption=..., stories=...)

`runs(values)` returns Configs of runs, by name. The rest is derived.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from moe_lab.core.config import RunConfig, require
from moe_lab.core.errors import InputError
from moe_lab.core.scalars import python_of
from moe_lab_widgets.drawing.panel import Panel
from moe_lab_widgets.engine.declaration import Argument, Declaration, Values
from moe_lab_widgets.engine.goal import Goal
from moe_lab_widgets.engine.knobs import LabKnob
from moe_lab_widgets.engine.lab import Lab
from moe_lab_widgets.engine.own import check_arguments, check_parts
from moe_lab_widgets.engine.record import Record
from moe_lab_widgets.engine.story import Story


def lab(
    title: str,
    train: Callable[..., Iterable[Any]] | None = None,
    *,
    knobs: Sequence[LabKnob],
    panels: Sequence[Panel],
    caption: Callable[[Record], str] | None = None,
    goals: Sequence[Goal] = (),
    stories: Sequence[Story] = (),
    runs: Callable[[Values], Mapping[str, RunConfig]] | None = None,
    seconds: Callable[[Values], float] | None = None,
    measures: Mapping[str, str] | Sequence[str] | Callable[[RunConfig], Mapping[str, str]] = (),
    arguments: Mapping[str, Argument] | None = None,
    name: str = "",
    about: str = "",
    **more: Any,
) -> type[Lab]:
    """Makes a Lab: a class, of which `MyLab(rate=0.2)` is one on the page.

    Args:
      title: its heading.
      train: a function that yields records (dicts, Snapshots, objects), called with the knobs that it names, and with
        `present`, a function that returns the present values, and `cache`, a dict that lasts as long as the Lab, if it
        names them. Records may have a Snapshot as `shot`, from which divergence is read; or
      runs: a function of the values that returns Configs of runs, by name. The first is under study. How often they
        record is derived, unless they are given `record_every`.
      knobs: sliders and choices (`slider`, `offer`, `LabKnob`). Every Lab has a seed and a device, too.
      panels: what is drawn.
      caption: returns the sentence below the picture.
      goals: what there is to bring about, in the order of the menu.
      stories: presets.
      seconds: about how long a step of all runs takes on one CPU thread.
      measures: the measures that copied code prints, each with the word before it, or a function that returns them for
        a run; the first one is drawn.
      arguments: further arguments of the Lab's constructor: for each name a function of the knobs, of the argument and
        of the initial values, which returns knobs and values. Functions find the argument among their values.
      name: of the class; by default from the title.
      about: its docstring.
      more: any other attribute of `Declaration` that is not to be derived: check, progress, code, data and others; and
        speed, frames, most_records or budget of a Lab.

    Raises:
      ValueError: not exactly one of train and runs is given, or there is no such hook.
    """
    if (train is None) == (runs is None):
        got = "neither" if train is None else "both"
        raise InputError(f"a Lab must have either a function that yields records (train) or Configs (runs): got {got}")
    settings: dict[str, Any] = {
        one: more.pop(one) for one in ("speed", "frames", "most_records", "budget") if one in more
    }
    unknown = set(more) - set(Declaration.__dataclass_fields__)
    if unknown:
        raise InputError(
            f"a Lab must be made of what `help(lab)` and `Declaration` name: got {', '.join(sorted(unknown))}"
        )
    check_parts(knobs, panels, goals, stories)
    if train is not None:
        check_arguments(train, knobs, arguments or {})
    printed = measures if isinstance(measures, Mapping) or callable(measures) else dict.fromkeys(measures, "")
    declaration = Declaration(
        train=train, runs=runs, panels=tuple(panels), caption=caption, seconds=seconds, measures=printed,
        arguments=arguments or {}, goals=tuple(goals), **more,
    )  # fmt: skip
    caller = inspect.currentframe().f_back  # type: ignore[union-attr]
    attributes: dict[str, Any] = {
        "title": title,
        "knobs": tuple(knobs),
        "stories": tuple(stories),
        "declaration": declaration,
        "__module__": caller.f_globals.get("__name__", "__main__") if caller else "__main__",
        "__doc__": about or title,
        **settings,
    }
    return type(name or "".join(filter(str.isalnum, title.title())) + "Lab", (Lab,), attributes)


def slider(
    name: str, default: float, low: float, high: float, step: float | None = None, meaning: str = "", **more: Any
) -> LabKnob:
    """Returns a slider for a Lab of your own.

    Args:
      name: the argument that it sets.
      default: its first value; whole numbers make a slider of whole numbers.
      low, high: its ends.
      step: between two values; None for about a hundredth of the range.
      meaning: its label; by default the name.
      more: other attributes of a `LabKnob`, such as `symbol`, `main` or `enabled_when`.
    """
    default, low, high, step = python_of((default, low, high, step))
    require(low <= default <= high and low < high, f"the slider {name} must begin between its ends", default=default)
    whole = all(isinstance(one, int) for one in (default, low, high))
    if step is None:
        step = 1 if whole else 10.0 ** round(math.log10((high - low) / 100))
    return LabKnob(
        name=name,
        meaning=meaning or name.replace("_", " "),
        default=default,
        low=low,
        near=low,
        far=high,
        slider=(low, high, step),
        **more,
    )
