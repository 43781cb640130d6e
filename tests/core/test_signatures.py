"""`help` and completion know every parameter: its name, default, meaning, symbol and bounds."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from moe_lab.core.config import Config, ConfigError
from moe_lab.core.signatures import notebook_sentence, with_notebook
from moe_lab.patch_routing import JointMoE, PatchRun, PatternTask, training
from moe_lab.pruning import training as pruning
from moe_lab.recovery.gridlock import training as gridlock
from moe_lab.recovery.landscape import training as landscape
from moe_lab.registry import PAPERS, notebook_of
from moe_lab.specialization import training as specialization
from moe_lab.vision.patches import training as patches
from moe_lab.vision.rotation import training as rotation
from tools import reference

FUNCTIONS = {
    module.__name__: function
    for module, function in (
        (training, training.train),
        (pruning, pruning.train),
        (gridlock, gridlock.train),
        (landscape, landscape.descend),
        (specialization, specialization.train),
        (patches, patches.train),
        (rotation, rotation.train),
    )
}


RUNS = ("PatchRun", "TokenRun", "MixtureRun", "LossRun", "ClusterRun", "PatchImageRun", "TurnRun")


def run_of(module: str) -> type[Config]:
    """The one run that a module of trainings knows."""
    (run,) = {name for name in RUNS if name in vars(inspect.getmodule(FUNCTIONS[module]))}
    return vars(inspect.getmodule(FUNCTIONS[module]))[run]


@pytest.mark.parametrize("module", FUNCTIONS)
def test_settings_are_parameters_with_defaults_and_meanings(module):
    run, function = run_of(module), FUNCTIONS[module]
    shown, doc = inspect.signature(function).parameters, inspect.getdoc(function)
    assert set(shown) == set(run.model_fields) and list(shown)[:2] == ["model", "task"]
    for name, knob in run.knobs().items():
        if name not in ("model", "task"):
            assert shown[name].default == knob.default and shown[name].kind is inspect.Parameter.KEYWORD_ONLY
            assert f"  {name}: " in doc and knob.meaning in doc


def test_a_config_tells_what_each_parameter_means():
    assert str(inspect.signature(JointMoE)).endswith("experts: int = 8, patches_per_expert: int = 6)")
    assert "  experts: k · experts (default 8; 1 to 1024)" in inspect.getdoc(JointMoE)
    assert "  seed: seed of all random streams (default 0; 0 to 2^63)" in inspect.getdoc(PatchRun)
    assert "more than 0" in inspect.getdoc(JointMoE) and "Annotated" not in str(inspect.signature(PatchRun))


def public(room: str) -> Iterator[tuple[str, Any]]:
    """The Configs and functions of training that a room's package has, and its figures."""
    package, figures = import_module(f"moe_lab.{room}"), import_module(f"moe_lab.{room}.figures")
    for name in package.__all__:
        value = getattr(package, name)
        if (inspect.isclass(value) and issubclass(value, Config)) or name in ("train", "descend", "recover"):
            yield f"{room}.{name}", value
    for name in dict(reference.gallery())[figures.__name__]:
        yield f"{room}.figures.{name}", getattr(figures, name)


PUBLIC = {
    name: thing for room in (*(paper.room for paper in PAPERS.values()), "vision") for name, thing in public(room)
}


@pytest.mark.parametrize("name", PUBLIC)
def test_help_ends_with_the_notebook_that_explains_it(name):
    thing = PUBLIC[name]
    notebook = notebook_of(f"{thing.__module__}.{thing.__qualname__}")
    doc, sentence = inspect.getdoc(thing), f"See notebook {notebook.number}, {notebook.title}."
    assert doc.endswith(f"\n\n{sentence}") and doc.count("See notebook ") == 1
    assert doc.splitlines()[0] and not doc.startswith("See notebook")


def test_nothing_is_added_where_no_notebook_is():
    class Own(JointMoE):
        """My own."""

    assert notebook_sentence("moe_lab.core.config.Config") == "" and "See notebook" not in inspect.getdoc(Own)
    assert with_notebook(Own) is Own and inspect.getdoc(Own).startswith("My own.")


def test_what_is_called_stays_as_it_was():
    with pytest.raises(ConfigError, match="train has no parameter 'sample'"):
        training.train(JointMoE(), PatternTask(), sample=3)
