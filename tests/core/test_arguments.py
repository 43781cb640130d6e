"""Whatever a function is given, a wrong argument is refused in one short sentence that names it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import moe_lab_papers as reproduce
from moe_lab import collect, final
from moe_lab.core.arguments import checked
from moe_lab.core.config import Config
from moe_lab.core.errors import UserError
from moe_lab.core.files import writable_folder, write_whole
from moe_lab.core.store import Store
from moe_lab.core.sweep import sweep
from moe_lab.core.words import with_article
from moe_lab.course import doctor
from moe_lab.course.classroom import build
from moe_lab.course.copies import copy_course
from moe_lab.datasets import cifar, mnist, uci
from moe_lab.drawing.plots import curves
from moe_lab.exercises import predict
from moe_lab.patch_routing import CNN, ArrayTask, DigitTask, JointMoE, PatchRun, PatternTask, figures, plots, train
from moe_lab.patch_routing.pulls import router_pulls
from moe_lab.pruning.criteria import criterion_of
from moe_lab.recovery.gridlock.figures import figure6
from moe_lab_hub.folder import Folder
from moe_lab_hub.scores import checked_name
from moe_lab_papers import catalogue, check, exchange
from moe_lab_widgets import RouterAlignmentLab, prediction
from tests.helpers.strange import LONG, Strange

FIGURES = (
    "patch_routing.figures",
    "specialization.figures",
    "pruning.figures",
    "recovery.gridlock.figures",
    "recovery.landscape.figures",
    "vision.figures",
)
HELPERS = ("patch_model", "turn_model")
"""Makers of models that the figures of the vision room share."""


def _figures() -> Iterator[tuple[Callable[..., Any], str]]:
    """The parameters of every public function of the rooms' figures."""
    for name in FIGURES:
        module = import_module(f"moe_lab.{name}")
        for _, function in inspect.getmembers(module, inspect.isfunction):
            if (
                function.__module__ == module.__name__
                and function.__name__ not in HELPERS
                and function.__name__[0] != "_"
            ):
                for part in inspect.signature(function).parameters.values():
                    if part.kind is not part.VAR_KEYWORD:
                        yield function, part.name


def _refused(call: Callable[..., Any], *given: Any, **named: Any) -> str:
    """The sentence with which a call is refused."""
    with pytest.raises((ValueError, RuntimeError)) as raised:
        call(*given, **named)
    sentence = str(raised.value)
    assert ": got " in sentence and "\n" not in sentence and len(sentence) <= 300, sentence
    return sentence


@pytest.mark.parametrize("function, name", [pytest.param(*one, id=f"{one[0].__name__}-{one[1]}") for one in _figures()])
def test_a_figure_refuses_what_is_no_value_of_a_parameter(function: Callable[..., Any], name: str) -> None:
    required = {
        part.name: None for part in inspect.signature(function).parameters.values() if part.default is part.empty
    }
    if required and name not in required:
        return  # it computes from a result, which comes first
    assert _refused(function, **{**required, name: Strange()}).startswith(f"{next(iter(required), name)} must be ")


@pytest.mark.parametrize(
    "named, sentence",
    [
        ({"samples": "many"}, "samples must be a sequence of whole numbers: got samples='many'"),
        ({"samples": 100}, "samples must be a sequence of whole numbers: got samples=100"),
        ({"trials": 2.5}, "trials must be a whole number: got trials=2.5"),
        ({"trials": "3"}, "trials must be a whole number: got trials='3'"),
        ({"model": CNN()}, "model must be a JointMoE or None: got model=CNN("),
        ({"model": {"experts": 3}}, "model must be a JointMoE or None: got model={'experts': 3}"),
        ({"root": 7}, "root must be a path or text or None: got root=7"),
    ],
    ids=str,
)
def test_the_sentence_says_what_is_wanted(named: dict[str, Any], sentence: str) -> None:
    assert _refused(figures.joint_routers, **named).startswith(sentence)


def test_what_fits_is_handed_on_as_it_is() -> None:
    @checked
    def given(numbers: tuple[int, ...], model: JointMoE, rows: Any = None, **more: Any) -> tuple[Any, ...]:
        return numbers, model, rows, more

    numbers, model, rows = np.arange(3), JointMoE(), object()
    assert given(numbers, model=model, rows=rows, self=1) == (numbers, model, rows, {"self": 1})
    assert given.__name__ == "given" and list(inspect.signature(given).parameters) == [
        "numbers", "model", "rows", "more",
    ]  # fmt: skip
    with pytest.raises(TypeError, match="missing a required argument: 'model'"):
        given((1, 2))


@pytest.mark.parametrize(
    "value", [Strange(), LONG, ["a\nb"] * 1000, "a\nb", {1: Strange()}, 10**400], ids=lambda one: type(one)
)
def test_a_config_quotes_any_value_briefly(value: Any) -> None:
    assert _refused(JointMoE, experts=value).startswith("experts (k) must be ")


def test_a_parameter_may_have_any_name() -> None:
    for kind in (JointMoE, CNN):
        assert _refused_name(kind, "self").startswith(f"{kind.__name__} has no parameter 'self': it takes ")
    assert len(_refused_name(JointMoE, LONG)) < 300


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: JointMoE(l=3), "JointMoE has no parameter 'l': did you mean patches_per_expert (l)?"),
        (lambda: JointMoE(expert=4), "JointMoE has no parameter 'expert': did you mean experts (k)?"),
        (lambda: PatternTask(n=9), "PatternTask has no parameter 'n': did you mean patches (n)?"),
        (
            lambda: train(JointMoE(), PatternTask(), sample=50),
            "train has no parameter 'sample': did you mean samples (N)?",
        ),
        (lambda: train(JointMoE(), PatternTask(), N=50), "train has no parameter 'N': did you mean samples (N)?"),
        (lambda: router_pulls(N=50), "router_pulls has no parameter 'N': did you mean samples (N)?"),
        (
            lambda: figures.phase_map(patch_per_expert=(1, 2)),
            "phase_map has no parameter 'patch_per_expert': did you mean patches_per_expert (l)?",
        ),
        (lambda: figures.phase_map(epoch=3), "phase_map has no parameter 'epoch': did you mean epochs (E)?"),
        (lambda: RouterAlignmentLab(k=4), "RouterAlignmentLab has no parameter 'k': did you mean experts (k)?"),
    ],
    ids=[
        "symbol",
        "typo",
        "symbol of a task",
        "typo in a setting",
        "symbol of a setting",
        "in a figure",
        "handed on by a figure",
        "a setting of a figure",
        "in a Lab",
    ],
)
def test_a_symbol_or_a_typo_leads_to_the_name(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(ValueError) as raised:
        call()
    assert str(raised.value) == said


def _taking_settings() -> list[Callable[..., Any]]:
    """The functions of the rooms' figures that hand keywords on."""
    found = {}
    for name in FIGURES:
        for one, function in inspect.getmembers(import_module(f"moe_lab.{name}"), inspect.isfunction):
            signature = inspect.signature(inspect.unwrap(function))
            kinds = {part.kind for part in signature.parameters.values()}
            figure = one[0] != "_" and "Dataset" in str(signature.return_annotation)
            if figure and inspect.Parameter.VAR_KEYWORD in kinds:
                found[function] = None
    return list(found)


@pytest.mark.parametrize("function", _taking_settings(), ids=lambda function: function.__name__)
def test_a_keyword_that_is_handed_on_is_refused_by_the_function_it_was_given_to(function: Callable[..., Any]) -> None:
    with pytest.raises(ValueError) as raised:
        function(no_such_setting=1)
    said = f"{function.__name__} has no parameter 'no_such_setting': it takes ", "figure "  # pruning names its figures
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize("call", [partial(PatchRun, task=PatternTask()), figures.joint_routers], ids=["run", "figure"])
def test_a_class_in_the_place_of_an_instance_is_told_its_brackets(call: Callable[..., Any]) -> None:
    """Of `train` through Run, which it makes: where pytest checks types, `train`'s own are checked before its body."""
    assert _refused(call, model=JointMoE).startswith("model must be an instance, JointMoE(), not the class: got model=")


def _refused_name(kind: type[Config], name: str) -> str:
    with pytest.raises(ValueError) as raised:
        kind(**{name: 1})
    return str(raised.value)


def _nothing(points: list[Any], *, trials: int, seed: int) -> dict[str, np.ndarray]:
    return {"zero": np.zeros((len(points), trials))}


@pytest.mark.parametrize("name, value", [("trials", "x"), ("jobs", "x"), ("jobs", 0), ("batch", "x"), ("store", 5)])
def test_a_sweep_refuses_them_before_it_runs(name: str, value: Any) -> None:
    assert f"got {name}=" in _refused(sweep, _nothing, {"l": [1]}, **{"trials": 1, name: value})


NO_FOLDERS = [LONG, Path(LONG), "a\0b", "/nowhere/a\nb"]
UNREADABLE: dict[str, Callable[..., Any]] = {
    "mnist": mnist.load,
    "idx": mnist.read_idx,
    "digits": lambda root: DigitTask(source="mnist", root=root).dimension,
    "cifar": cifar.load,
    "table": uci.read_table,
    "figure6": lambda path: figure6("airfoil", path),
    "doctor": lambda path: doctor.report(Path(path)),
    "checkpoint": Folder,
    "claims": lambda path: reproduce.run(data=path),
    "results": check.check,
}
UNWRITABLE: dict[str, Callable[..., Any]] = {
    "folder": writable_folder,
    "file": lambda path: write_whole(path, b""),
    "class": lambda path: list(build.build(path)),
    "course": lambda path: copy_course(Path(path)),
    "report": lambda path: reproduce.run(["chen2022/table3"], out=path),
    "export": lambda path: exchange.export(path, ["chen2022/table3"]),
}


@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("path", NO_FOLDERS, ids=["long", "Path", "NUL", "line"])
def test_no_name_of_a_file_or_folder_ends_in_an_error_of_the_system(name: str, path: Path | str) -> None:
    with pytest.raises((FileNotFoundError, ValueError)) as raised:
        UNREADABLE[name](path)
    assert _is_a_sentence(raised.value)


@pytest.mark.parametrize("name", UNWRITABLE)
@pytest.mark.parametrize("path", NO_FOLDERS[:3], ids=["long", "Path", "NUL"])
def test_nothing_is_written_under_such_a_name(name: str, path: Path | str) -> None:
    with pytest.raises(RuntimeError) as raised:
        UNWRITABLE[name](path)
    assert _is_a_sentence(raised.value)


def _is_a_sentence(error: Exception) -> bool:
    """Whether an error is the library's own, and its message is short and stands on a line."""
    assert len(str(error)) <= 300 and str(error).isprintable(), error
    return isinstance(error, UserError)


RUN = (JointMoE(), PatternTask())
WRONG: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], str]] = [
    *(
        (reproduce.run, (), {name: value}, f"{name} must be ")
        for name, value in [
            ("seed", "x"), ("jobs", "x"), ("out", 5), ("data", 5), ("cluster", 5), ("names", 3), ("names", [[]]),
            ("names", [Strange()]), ("budget", LONG), ("device", LONG),
        ]
    ),
    *((call, ([[]],), {}, "names must be a sequence of texts: got ") for call in (reproduce.chosen, catalogue.show)),
    (reproduce.run, ([LONG],), {}, "a claim must be named by its id"),
    (reproduce.run, (), {"self": 1}, "run has no parameter 'self': it takes names, budget, "),
    (reproduce.run, (), {LONG: 1}, "run has no parameter 'xxx"),
    (sweep, (_nothing, {"l": [1]}), {"self": 1, "trials": 1}, "sweep has no parameter 'self': it takes run, axes, "),
    (sweep, (_nothing, {LONG: []}), {"trials": 1}, "axis xxx"),
    (sweep, (_nothing, {LONG: [1, 1]}), {"trials": 1}, "values of axis xxx"),
    (sweep, (_nothing, {LONG: 1}), {"trials": 1}, "axes must be a mapping to sequences"),
    (Store.open, (5,), {}, "folder must be a path or text: got folder=5"),
    (Store.open, ("kept",), {"run": 3}, "run must be a function: got run=3"),
    *((call, (3,), {}, "run must be a sequence of Snapshots: got run=3") for call in (collect, final)),
    *((call, (iter([Strange()]),), {}, "a run must give Snapshots: got run=") for call in (collect, final)),
    (plots.picture, (3,), {}, "data must be a Dataset: got data=3"),
    *((call, (3, 3), {}, "question must be text: got question=3") for call in (predict, prediction.predict)),
    (predict, ("q", 3), {}, "options must be a sequence of texts or a mapping to numbers: got options=3"),
    (predict, ("q", ["a", "b"], LONG), {}, "answer must be one of a, b: got answer='xxx"),
    (train, RUN, {"device": LONG}, "device must be 'auto', 'cpu', 'cuda', 'cuda:N' or 'mps': got device='xxx"),
    (train, RUN, {LONG: 1}, "train has no parameter 'xxx"),
    (criterion_of, (LONG,), {}, "a criterion must be one of "),
    (checked_name, (LONG,), {}, "a criterion must be one of "),
    (setattr, (JointMoE(), LONG, LONG), {}, "a JointMoE is immutable"),
    (setattr, (ArrayTask(x=[[[1.0]]] * 4, y=[0, 1, 0, 1]), "x", 1), {}, "an ArrayTask is immutable; "),
    (curves, (None,), {"axes": 3}, "data must be a Dataset or a mapping to Datasets: got data=None"),
]  # fmt: skip


@pytest.mark.parametrize("call, given, named, sentence", WRONG, ids=lambda part: getattr(part, "__name__", ""))
def test_wrong_arguments_end_in_a_short_sentence(
    call: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any], sentence: str
) -> None:
    with pytest.raises((ValueError, RuntimeError)) as raised:
        call(*given, **named)
    assert _is_a_sentence(raised.value) and str(raised.value).startswith(sentence), str(raised.value)


def test_the_article_is_that_of_the_spoken_name() -> None:
    assert [with_article(name) for name in ("JointMoE", "ArrayTask", "L2Loss", "LogLoss", "MNIST")] == [
        "a JointMoE", "an ArrayTask", "an L2Loss", "a LogLoss", "an MNIST",
    ]  # fmt: skip


def test_a_name_too_long_for_a_file_is_a_sentence(tmp_path: Path) -> None:
    for folder in (tmp_path / ("x" * 5000), f"{tmp_path}/{'y' * 5000}\n"):
        assert "File name too long" in _refused(writable_folder, folder)
    with pytest.raises(RuntimeError, match="could not be written") as raised:
        write_whole(tmp_path / ("x\n" * 5000), b"")
    assert len(str(raised.value)) < 300 and "\n" not in str(raised.value)
