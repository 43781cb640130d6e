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
    return package_of(type(run).__module__, f"{run.function}_run"), run.function


def package_of(module: str, name: str) -> str:
    """Returns the first package above a module that exports a name."""
    parts = module.split(".")[:-1]
    while len(parts) > 1:
        if hasattr(importlib.import_module(".".join(parts)), name):
            return ".".join(parts)
        parts.pop()
    raise TypeError(f"no package above {module} exports {name}")


def imports_of(runs: Mapping[str, RunConfig]) -> list[str]:
    """Returns the lines that import the models and tasks of runs, and the function that performs them."""
    made = {type(part) for run in runs.values() for part in (run.model, run.task)}
    wanted: dict[str, list[str]] = {}
    for name, module in sorted((kind.__name__, kind.__module__) for kind in made):
        wanted.setdefault(package_of(module, name), []).append(name)
    module, function = home(next(iter(runs.values())))
    wanted.setdefault(module, []).append(function)
    return [f"from {package} import {', '.join(names)}" for package, names in sorted(wanted.items())]


def code_of(runs: Mapping[str, RunConfig], measures: Mapping[str, str]) -> str:
    """Returns Python that runs as it is pasted and computes the numbers of the Lab.

    Args:
      runs: on one task, with the same settings; each name becomes a variable.
      measures: what is printed of each run, by the word before it; the first one is drawn.
    """
    first: Any = next(iter(runs.values()))
    _, function = home(first)
    width = max(map(len, runs))
    lines = [
        *imports_of(runs),
        "from moe_lab.plots import curves",
        "from moe_lab.training import collect",
        "",
        f"task = {first.task.code()}",
        f"settings = dict({arguments(settings_of(first))})",
        *(f"{name} = collect({function}({run.model.code()}, task, **settings))" for name, run in runs.items()),
        f"runs = dict({', '.join(f'{name}={name}' for name in runs)})",
        f"{', '.join(runs)}{',' * (len(runs) == 1)} = (run.isel(step=-1) for run in runs.values())",
    ]
    for name in runs:
        said = ", ".join(f'{f"{word!r}, " if word else ""}{name}["{one}"].values' for one, word in measures.items())
        lines.append(f'print("{name:{width}}", {said})')
    return "\n".join([*lines, f'curves(runs, "{next(iter(measures))}")'])


def settings_of(run: RunConfig) -> dict[str, Any]:
    """Returns the settings of a run, besides model and task, that differ from the defaults, and a chosen device."""
    fields = {name: field for name, field in type(run).model_fields.items() if name not in ("model", "task")}
    given = {name: getattr(run, name) for name in fields}
    usual = {name: AUTO if name == "device" else field.default for name, field in fields.items()}
    return {name: one for name, one in given.items() if one != usual[name]}


def own_code(train: Callable[..., Any], given: Mapping[str, Any]) -> str:
    """Returns the call of a function of one's own."""
    name = train.__name__
    here = train.__module__ == "__main__"
    begin = f"# {name} is the function in your notebook" if here else f"from {train.__module__} import {name}"
    return f"{begin}\nrecords = list({name}({arguments(given)}))\nprint(records[-1])"
