"""How a run of a Config is begun, and the code that makes it without a Lab."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from moe_lab.core.config import RunConfig
from moe_lab.core.devices import AUTO
from moe_lab.core.snapshots import Snapshot
from moe_lab_widgets.engine.knobs import arguments

Measures = Mapping[str, str] | Callable[[RunConfig], Mapping[str, str]]


def started(run: RunConfig) -> Iterator[Snapshot]:
    """Starts a run, by the function of its room."""
    name = f"{run.function}_run"
    begun: Iterator[Snapshot] = getattr(importlib.import_module(package_of(type(run).__module__, name)), name)(run)
    return begun


def package_of(module: str, name: str) -> str:
    """Returns the first package above a module that exports a name."""
    parts = module.split(".")[:-1]
    while len(parts) > 1:
        if hasattr(importlib.import_module(".".join(parts)), name):
            return ".".join(parts)
        parts.pop()
    raise TypeError(f"no package above {module} exports {name}")


def code_of(runs: Mapping[str, RunConfig], measures: Measures, own: Mapping[str, Any] | None = None) -> str:
    """Returns Python that runs as it is pasted and computes the numbers of the Lab.

    Args:
      runs: on one task; each name becomes a variable, or a key where it cannot be one.
      measures: what is printed of each run, by the word before it, or a function that returns it for a run; the first
        one of variables is drawn.
      own: what the Lab's constructor was given. A model made of it is named in the code: only its user can write it.
    """
    first: Any = next(iter(runs.values()))
    said = measures if callable(measures) else lambda run: measures
    own = {name: one for name, one in (own or {}).items() if any(type(run.model) is type(one) for run in runs.values())}
    models = {name: _written(run.model, own) for name, run in runs.items()}
    head = [*(f"# {name} is what you gave to the Lab" for name in own), *_imports(runs, own)]
    each = {name: settings_of(run) for name, run in runs.items()}
    shared = dict(item for item in settings_of(first).items() if all(item in own.items() for own in each.values()))
    settings = [f"task = {first.task.code()}", f"settings = dict({arguments(shared)})"]
    variables = {name: name.replace(" ", "_") for name in runs}
    if all(map(str.isidentifier, variables.values())):
        more = {name: {key: one for key, one in own.items() if key not in shared} for name, own in each.items()}
        calls = {
            variables[name]: ", ".join(filter(None, (model, "task", "**settings", arguments(more[name]))))
            for name, model in models.items()
        }
        measured = {variables[name]: said(run) for name, run in runs.items()}
        return "\n".join([*head, *_variables(first.function, calls, settings, measured)])
    return "\n".join([*head, *_table(first.function, models, settings, said(first))])


def _imports(runs: Mapping[str, RunConfig], own: Mapping[str, Any]) -> list[str]:
    """Returns the lines that import models, tasks and the function that performs the runs."""
    made = {type(part) for run in runs.values() for part in (run.model, run.task)} - set(map(type, own.values()))
    wanted: dict[str, list[str]] = {}
    for name, module in sorted((kind.__name__, kind.__module__) for kind in made):
        wanted.setdefault(package_of(module, name), []).append(name)
    first = next(iter(runs.values()))
    wanted.setdefault(package_of(type(first).__module__, first.function), []).append(first.function)
    return [f"from {package} import {', '.join(names)}" for package, names in sorted(wanted.items())]


def _variables(
    function: str, calls: Mapping[str, str], settings: list[str], measures: Mapping[str, Mapping[str, str]]
) -> list[str]:
    """Returns lines that keep every run in a variable, print what they end with, and draw them."""
    width = max(map(len, calls))
    lines = ["from moe_lab.drawing.plots import curves", "from moe_lab.core.snapshots import collect", "", *settings]
    lines += [f"{name} = collect({function}({call}))" for name, call in calls.items()]
    lines += [
        f"runs = dict({', '.join(f'{name}={name}' for name in calls)})",
        f"{', '.join(calls)}{',' * (len(calls) == 1)} = (run.isel(step=-1) for run in runs.values())",
    ]
    for name, own in measures.items():
        said = ", ".join(f'{f"{word!r}, " if word else ""}{name}["{one}"].values' for one, word in own.items())
        lines.append(f'print("{name:{width}}", {said})')
    return [*lines, f'curves(runs, "{next(iter(next(iter(measures.values()))))}")']


def _table(function: str, models: Mapping[str, str], settings: list[str], measures: Mapping[str, str]) -> list[str]:
    """Returns lines that keep the last Snapshot of every run by its name, and print them."""
    said = ", ".join(f'{f"{word!r}, " if word else ""}snapshot["{one}"]' for one, word in measures.items())
    return [
        "from moe_lab.core.snapshots import final",
        "",
        *settings,
        "models = {",
        *(f"    {name!r}: {model}," for name, model in models.items()),
        "}",
        f"last = {{name: final({function}(model, task, **settings)) for name, model in models.items()}}",
        "for name, snapshot in last.items():",
        f'    print(f"{{name:{max(map(len, models))}}}", {said})',
    ]


def _written(model: Any, own: Mapping[str, Any]) -> str:
    """Returns the code of a model: its call, or the name of what the Lab was given, with what the sliders change."""
    for name, given in own.items():
        if type(given) is type(model):
            fields = {field: (getattr(given, field), getattr(model, field)) for field in type(model).model_fields}
            changed = {field: now for field, (before, now) in fields.items() if now is not before and now != before}
            return f"{name}.replace({arguments(changed)})" if changed else name
    return str(model.code())


def settings_of(run: RunConfig) -> dict[str, Any]:
    """Returns the settings of a run, besides model and task, that differ from the defaults, and a chosen device."""
    fields = {name: field for name, field in type(run).model_fields.items() if name not in ("model", "task")}
    given = {name: getattr(run, name) for name in fields}
    usual = {name: AUTO if name == "device" else field.default for name, field in fields.items()}
    return {name: one for name, one in given.items() if one != usual[name]}


def name_of(given: Any, argument: str) -> str:
    """Returns how code names what a Lab's argument was given: by its own name, or as the argument where it has none."""
    name = getattr(given, "__name__", "")
    return name if name.isidentifier() else argument


def own_code(train: Callable[..., Any], given: Mapping[str, Any]) -> str:
    """Returns the call of a user's function."""
    name = train.__name__
    here = train.__module__ == "__main__"
    begin = f"# {name} is the function in your notebook" if here else f"from {train.__module__} import {name}"
    return f"{begin}\nrecords = list({name}({arguments(given)}))\nprint(records[-1])"
