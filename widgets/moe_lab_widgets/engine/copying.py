"""How a run of a Config is begun, and the code that makes it without a Lab."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from moe_lab.config import RunConfig
from moe_lab.devices import AUTO
from moe_lab.training import Snapshot
from moe_lab_widgets.engine.knobs import arguments


def started(run: RunConfig) -> Iterator[Snapshot]:
    """Begins a run, by the function of its room."""
    module, function = home(run)
    begun: Iterator[Snapshot] = getattr(importlib.import_module(module), f"{function}_run")(run)
    return begun


def home(run: RunConfig) -> tuple[str, str]:
    """Returns the first package above a Config that exports the function that performs it, and the function."""
    parts = type(run).__module__.split(".")[:-1]
    while len(parts) > 1:
        if hasattr(importlib.import_module(".".join(parts)), run.function):
            return ".".join(parts), run.function
        parts.pop()
    raise TypeError(f"no package exports {run.function} for {type(run).__name__}")


Measures = Mapping[str, str] | Callable[[RunConfig], Mapping[str, str]]


def code_of(runs: Mapping[str, RunConfig], measures: Measures, own: Mapping[str, Any] | None = None) -> str:
    """Returns Python that runs as it is pasted and computes the numbers of the Lab.

    Args:
      runs: on one task, with the same settings; each name becomes a variable.
      measures: what is printed of each run, by the word before it, or a function that returns it for a run; the first
        one is drawn.
      own: what the Lab's constructor was given. A model made of it is named in the code: only its user can write it.
    """
    first: Any = next(iter(runs.values()))
    of = measures if callable(measures) else lambda run: measures
    module, function = home(first)
    own = {name: one for name, one in (own or {}).items() if any(type(run.model) is type(one) for run in runs.values())}
    parts = [part for run in runs.values() for part in (run.model, run.task)]
    made = sorted({type(part).__name__ for part in parts} - {type(one).__name__ for one in own.values()})
    width = max(map(len, runs))
    models = {name: _written(run.model, own) for name, run in runs.items()}
    lines = [
        *(f"# {name} is what you gave to the Lab" for name in own),
        f"from {module} import {', '.join([*made, function])}",
        "from moe_lab.plots import curves",
        "from moe_lab.training import collect",
        "",
        f"task = {first.task.code()}",
        f"settings = dict({arguments(settings_of(first))})",
        *(f"{name} = collect({function}({model}, task, **settings))" for name, model in models.items()),
        f"runs = dict({', '.join(f'{name}={name}' for name in runs)})",
        f"{', '.join(runs)}{',' * (len(runs) == 1)} = (run.isel(step=-1) for run in runs.values())",
    ]
    for name, run in runs.items():
        said = ", ".join(f'{f"{word!r}, " if word else ""}{name}["{one}"].values' for one, word in of(run).items())
        lines.append(f'print("{name:{width}}", {said})')
    return "\n".join([*lines, f'curves(runs, "{next(iter(of(first)))}")'])


def _written(model: Any, own: Mapping[str, Any]) -> str:
    """Returns the code of a model: its call, or the name of what the Lab was given, with what the sliders change."""
    for name, given in own.items():
        if type(given) is type(model):
            fields = {field: (getattr(given, field), getattr(model, field)) for field in type(model).model_fields}
            changed = {field: now for field, (before, now) in fields.items() if now is not before and now != before}
            return f"{name}.replace({arguments(changed)})" if changed else name
    return str(model.code())


def settings_of(run: RunConfig) -> dict[str, Any]:
    """Returns the settings of a run, besides model and task, that differ from the defaults."""
    fields = {name: field for name, field in type(run).model_fields.items() if name not in ("model", "task")}
    given = {name: getattr(run, name) for name in fields}
    return {name: one for name, one in given.items() if one != fields[name].default and (name, one) != ("device", AUTO)}


def own_code(train: Callable[..., Any], given: Mapping[str, Any]) -> str:
    """Returns the call of a function of one's own."""
    name = train.__name__
    here = train.__module__ == "__main__"
    begin = f"# {name} is the function in your notebook" if here else f"from {train.__module__} import {name}"
    return f"{begin}\nrecords = list({name}({arguments(given)}))\nprint(records[-1])"
