"""The checks of the exercises: solutions pass, other answers are explained, nothing raises."""

from __future__ import annotations

import inspect
import math
import re

import numpy as np
import pytest
import torch

from moe_lab import exercises, final
from moe_lab.exercises import verdict
from moe_lab.exercises.cases import Case
from moe_lab.exercises.verdict import Verdict, judge, show
from moe_lab.patch_routing import PatternTask, train
from moe_lab.pruning import PlantedStart, TokenMoE, TokenRun, TokenTask, fine_tune
from moe_lab.recovery import MixtureTask, em, transforms
from moe_lab.recovery.activations import activation_of
from moe_lab.recovery.landscape import losses
from moe_lab.recovery.transforms import gaussian_moments
from moe_lab.routers.balance import dispatch_entropy
from moe_lab.specialization import ClusterTask, SwitchMoE, mixture, theory
from moe_lab.specialization.layer import Layer
from tests.recovery import oracle
from tests.solutions import build, pruning, recovery, routing, specialization, transitions
from tests.solutions.every import CHECKS, SOLUTIONS


@pytest.mark.parametrize(
    "used",
    [
        lambda w, o: w.norm(dim=1),
        lambda w, o: w.sum(dim=1),
        lambda w, o: torch.cosine_similarity(w[:, None], o[None], dim=-1),
        lambda w, o: torch.norm(w, dim=1),
        lambda w, o: torch.linalg.norm(w, dim=1),
        lambda w, o: np.linalg.norm(w, dim=1),
        lambda w, o: w @ torch.ones(2, 2),
    ],
)
def test_torch_used_on_numpy_arrays_is_named_as_the_cause(used):
    said = exercises.check_alignment(used).message
    assert said.endswith("NumPy arrays, not torch tensors: use NumPy's functions, with axis= in place of dim=.")


@pytest.mark.parametrize(("name", "line"), [("np", "import numpy as np"), ("torch", "import torch")])
def test_a_missing_import_is_named(name, line):
    defined = {}
    exec(f"def alignment(routers, signals):\n    return {name}.sqrt(routers)", defined)
    assert exercises.check_alignment(defined["alignment"]).message.endswith(f"write `{line}` above your function.")


@pytest.mark.parametrize("crash", [lambda w, o: undefined, lambda w, o: w @ o, lambda w, o: w.shape.rows, lambda w: w])  # noqa: F821
def test_other_errors_are_told_as_they_are(crash):
    assert "NumPy" not in exercises.check_alignment(crash).message


def test_tensors_are_not_taken_for_arrays():
    assert "NumPy" not in exercises.check_chosen(lambda scores, count, dim: scores.astype(float)).message


@pytest.mark.parametrize("name", CHECKS)
class TestEveryCheck:
    def test_solution_passes(self, name):
        verdict = CHECKS[name](SOLUTIONS[name])
        assert verdict, verdict
        assert verdict.state == "right" and verdict.exercise == name

    def test_placeholder_is_open(self, name):
        verdict = CHECKS[name](lambda *arguments: None)
        assert not verdict and verdict.state == "open"
        assert "Not yet answered" in repr(verdict)
        assert CHECKS[name](None).state == "open"

    @pytest.mark.parametrize(
        "answer", ["a word", object(), [[1], [2, 3]], float("nan"), np.zeros((7, 7, 7)), {"a": 1}, [], 12345.678]
    )
    def test_odd_answers_are_explained(self, name, answer):
        verdict = CHECKS[name](lambda *arguments: answer)
        assert verdict.state == "wrong"
        assert len(verdict.message) > 20

    def test_a_crash_is_explained(self, name):
        def crashing(*arguments):
            raise IndexError("index 9 is out of bounds")

        verdict = CHECKS[name](crashing)
        assert verdict.state == "wrong"
        assert "IndexError: index 9 is out of bounds" in verdict.message

    def test_a_wrong_signature_is_explained(self, name):
        assert "TypeError" in CHECKS[name](lambda: 1).message

    def test_a_call_in_place_of_a_function_is_explained(self, name):
        assert "without brackets" in CHECKS[name](3.0).message

    def test_inputs_may_be_changed(self, name):
        def spoiling(*arguments):
            result = np.asarray(SOLUTIONS[name](*arguments), dtype=float).copy()
            for argument in arguments:
                if isinstance(argument, np.ndarray | torch.Tensor):
                    argument[...] = 0
            return result

        assert CHECKS[name](spoiling)
        assert CHECKS[name](SOLUTIONS[name])

    def test_float32_tensors_will_do(self, name):
        def answer(*arguments):
            return torch.tensor(np.asarray(SOLUTIONS[name](*arguments), dtype=np.float32), requires_grad=True)

        assert CHECKS[name](answer)

    def test_a_small_error_is_found(self, name):
        verdict = CHECKS[name](lambda *arguments: np.asarray(SOLUTIONS[name](*arguments), dtype=float) * 1.001)
        assert verdict.state == "wrong"

    def test_the_second_hint_has_the_formula_and_not_the_answer(self, name, monkeypatch):
        monkeypatch.setattr(verdict, "_wrong_results", {})
        said = [
            CHECKS[name](lambda *arguments, by=by: np.asarray(SOLUTIONS[name](*arguments), dtype=float) * by).message
            for by in (1.001, 1.003)
        ]
        assert "The formula: " not in said[0] and "The formula: " in said[1] and "It should be" not in said[1]

    def test_arguments_are_named_in_the_docstring(self, name):
        parameters = ", ".join(inspect.signature(SOLUTIONS[name]).parameters)
        assert f"`{name}({parameters})" in CHECKS[name].__doc__


def test_hints_come_in_tiers_and_the_answer_last(monkeypatch):
    monkeypatch.setattr(verdict, "_wrong_results", {})
    case = Case((), np.array([[1.0, 2.0], [3.0, 4.0]]), "for nothing", {"You add one.": [[2.0, 3.0], [4.0, 5.0]]})

    def said(answer):
        return judge("sums", lambda: answer, [case], "", "the sums").message

    more = "Change your function and run the cell again: the next hint says more."
    first = said([[2.0, 3.0], [4.0, 5.0]])
    assert first == f"You add one. Your result for nothing is [[2, 3], [4, 5]]. {more}"
    assert said([[2.0, 3.0], [4.0, 5.0]]) == first, "the same result again is no other try"
    second = said([[1.0, 2.0], [2.5, 4.0]])
    where = "1 of 4 numbers are off; the first is at [1, 0], which is too small."
    assert second == f"Your result for nothing is [[1, 2], [2.5, 4]]. {where} The formula: the sums. {more}"
    third = said([[1.0, 2.0], [np.nan, 9.0]])
    assert "NaN or infinity" in third and "should be" not in third, "which says what is wrong, whatever the try"
    assert said([[1.0, 2.0], [3.0, 9.0]]).endswith(
        "which is too large. The formula: the sums. It should be [[1, 2], [3, 4]]."
    )
    assert judge("sums", lambda: case.expected, [case], "well done", "").message == "well done"


def test_the_tiny_model_gives_a_third():
    assert routing.output(*exercises.TINY.values()) == pytest.approx(1 / 3)


def test_l_star_agrees_with_the_task():
    task = PatternTask(distractors=3)
    drawn = task.sample(20, trials=[0], seed=0, dtype=torch.float64)
    irrelevant = drawn.patches()[0][drawn.roles[0] != 0].unflatten(0, (20, -1)).numpy()
    clean = PatternTask(distractors=3, noise=0).sample(20, trials=[0], seed=0, dtype=torch.float64)
    patterns = clean.patches()[0][clean.roles[0] != 0].unflatten(0, (20, -1)).numpy()
    o_1, o_2 = task.class_patterns().numpy()
    assert transitions.l_star(patterns, o_1, o_2, task.gap / 2) == task.l_star == 4
    assert irrelevant.shape == patterns.shape == (20, 15, 32)


def test_delta_agrees_with_the_task():
    task = PatternTask(delta_d=-0.5, delta_r=0.4, gap=0.5)
    assert transitions.delta(-0.5, 0.4) == pytest.approx(task.delta)


def test_the_bound_on_error_share_is_reached_by_the_tight_classifier():
    signals = ClusterTask(clusters=4).signals([0], 0)[0]
    f = theory.tight_classifier(signals)
    tables = (f(signals[:4]).numpy(), f(-signals[:4]).numpy(), f(2 * signals[4:]).numpy())
    assert specialization.error_share(*tables) == 1 / 8
    generator = np.random.default_rng(0)
    assert min(specialization.error_share(*generator.normal(size=(3, 4))) for _ in range(500)) >= 1 / 8


def test_one_training_step_agrees_with_the_exercises():
    """Outputs, step and entropy of the engine, sample by sample, against the solutions of notebook 04."""
    model, task = SwitchMoE(experts=3, filters=2, router_noise=0.5, learning_rate=0.3), ClusterTask()
    samples = task.sample(40, trials=[0], seed=0, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    weights, routers, noise = (
        torch.randn(shape, generator=generator, dtype=torch.float64)
        for shape in ((1, 3, 2, 50), (1, 3, 50), (1, 3, 40))
    )
    bound = Layer(samples, "cubic", torch.ones(2, dtype=torch.float64))
    state, sums = mixture.step(mixture.State(weights, routers, routers.new_zeros(1, 3)), bound, noise, model)
    outputs = [
        specialization.mixture_output(patches.numpy(), routers[0].numpy(), weights[0].numpy(), noise[0, :, i].numpy())
        for i, patches in enumerate(samples.patches()[0])
    ]
    margins = samples.labels[0].numpy() * np.array(outputs)
    assert float(sums.loss) == pytest.approx(np.logaddexp(0, -margins).sum())
    moved = specialization.expert_step(weights[0].numpy(), sums.experts[0].numpy(), 0.3)
    np.testing.assert_allclose(state.experts[0].numpy(), moved, atol=1e-12)
    counts = np.random.default_rng(1).integers(0, 4, size=(4, 8)).astype(float)
    assert specialization.dispatch_entropy(counts) == pytest.approx(float(dispatch_entropy(torch.tensor(counts))))


@pytest.fixture(scope="module")
def fine_tuned():
    """Token-choice in the middle of things: 8 experts, each token picks 3, everything moves."""
    model, task = TokenMoE(experts=8, top=3, routing="token-choice"), TokenTask(patterns=60, tokens=20)
    start = PlantedStart(favourites=4, others_norm=2.0)
    return fine_tune(
        TokenRun(model=model, task=task, start=start, steps=20, trials=1, test_samples=30, precision="float64")
    )


@pytest.mark.parametrize("rho", [0.25, 0.6, 0.9])
def test_pruning_agrees_with_the_exercises(fine_tuned, rho):
    """Delta, who stays and what is left of the output, against the solutions of notebook 05."""
    before, after = (weights.routers[0].numpy() for weights in (fine_tuned.before, fine_tuned.after))
    change, signs = pruning.norm_change(before, after), fine_tuned.after.signs.numpy()
    np.testing.assert_allclose(fine_tuned.scores("router-norm-change")[0].numpy(), change, atol=1e-12)
    kept = fine_tuned.kept("router-norm-change", rho)
    np.testing.assert_array_equal(kept[0].numpy(), pruning.kept_experts(change, signs, rho))
    table = fine_tuned.after.neurons[0].clamp(min=0).sum(2).T.numpy()  # (pattern, expert)
    outputs = [
        pruning.pruned_output(after.T[tokens], table[tokens], signs, kept[0].numpy(), 3)
        for tokens in fine_tuned.test.tokens[0].numpy()
    ]
    seen = fine_tuned.evaluate(fine_tuned.pruned(kept))
    np.testing.assert_allclose(seen.output[0].numpy(), outputs, atol=1e-10)


def test_the_importance_score_agrees_with_the_exercise(fine_tuned):
    scores = fine_tuned.after.routers[0].numpy().T[fine_tuned.samples("validation", 200).tokens[0].flatten().numpy()]
    gates = np.zeros_like(scores)
    for row, score in zip(gates, scores, strict=True):
        chosen = np.argsort(-score)[:3]
        row[chosen] = routing.softmax(score[chosen])
    found = fine_tuned.scores("importance-score")[0].numpy()
    np.testing.assert_allclose(found, pruning.importance_score(gates), atol=1e-12)


def test_an_assembled_mixture_takes_what_is_right_and_can_be_trained():
    names = ("router_scores", "chosen", "softmax_gates", "expert_outputs", "mixture", "logistic_loss")
    own = {name: getattr(build, name) for name in names}
    whole = exercises.assemble(**own)
    assert (
        repr(whole).splitlines() == [f"{name}: yours" for name in names] and whole.layer().steps.chosen is own["chosen"]
    )
    unfit = {
        "router_scores": lambda patches, routers: build.router_scores(patches.detach(), routers.detach()),
        "chosen": lambda scores, count, dim: build.chosen(scores, count, dim).float(),
        "softmax_gates": lambda scores, mask, dim: build.softmax_gates(scores, mask, dim).numpy(),
        "expert_outputs": lambda patches, hidden, outputs: np.asarray(
            build.expert_outputs(patches, hidden, outputs).data
        ),
        "mixture": lambda gates, values, kept: None,
        "logistic_loss": lambda f, y: 0.5,
    }
    reasons = ("does not see through", "by .bool()", "stops where autograd", "an? ndarray", "not answered", "not right")
    none = exercises.assemble(**unfit)
    for line, name, reason in zip(none.lines, names, reasons, strict=True):
        assert re.match(rf"{name}: the course’s .*{reason}", line)
        assert getattr(none, name) is not unfit[name]
    assert "<li>mixture: the course’s (yours is not answered yet)</li>" in none._repr_html_()
    short = {"samples": 40, "trials": 1, "epochs": 1, "test_samples": 60, "precision": "float64", "measure": "last"}
    mine, ours = (final(train(one.layer(), PatternTask(), **short)) for one in (whole, none))
    np.testing.assert_allclose(mine["alignment"], ours["alignment"], rtol=1e-6)


class TestVerdict:
    def test_shows_itself_in_text_and_html(self):
        verdict = Verdict("gates", "wrong", "a < b\nand more")
        assert repr(verdict) == "✗ gates: Not yet. a < b\nand more"
        assert "a &lt; b<br>and more" in verdict._repr_html_()

    def test_a_later_case_without_a_return_is_wrong_not_open(self):
        cases = [Case((1,), 1, "for 1"), Case((2,), 2, "for 2")]
        verdict = judge("half", lambda x: 1 if x == 1 else None, cases, "", "")
        assert verdict.state == "wrong" and "path without a return" in verdict.message

    def test_a_wrong_shape_names_both_shapes(self):
        verdict = judge("flat", lambda: [1, 2], [Case((), [[1], [2]], "here")], "", "")
        assert "shape (2, 1) here: got shape (2,)" in verdict.message

    def test_infinity_is_a_value(self):
        assert judge("never", lambda: math.inf, [Case((), math.inf, "here")], "", "")
        assert not judge("never", lambda: 3.0, [Case((), math.inf, "here")], "", "")

    @pytest.mark.parametrize(("value", "text"), [(0.5, "0.5"), ([1.0, -1e-9], "[1, 0]"), (np.zeros((5, 6)), "(5, 6)")])
    def test_show_is_short(self, value, text):
        assert text in show(value)
        assert "\n" not in show(np.random.default_rng(0).normal(size=(3, 8)))


def test_the_recovery_exercises_agree_with_the_engine():
    drawn = MixtureTask(dimension=4).sample(30, trials=[0], seed=0)
    x, y, (regressors, gates) = drawn.x[0].numpy(), drawn.y[0].numpy(), vars(drawn.truth).values()
    state = em.State(1.5 * regressors, gates)
    after = em.posterior(state, drawn.x, drawn.y, activation_of("identity"), 0.1)[0]
    a, b = 1.5 * regressors[0].numpy()
    assert recovery.e_step(x, y, np.stack((a, b)), gates[0].numpy(), 0.1) == pytest.approx(after[0].T.numpy())
    scores = drawn.inputs.hermite(1.5 * regressors, 3)[0, :, 0].numpy()
    assert recovery.third_score(x, a) == pytest.approx(scores)
    projected = oracle.hermite_projections(*(1.5 * regressors[:, i] for i in (0, 1)), drawn.x, 24.0, 2.0)[0]
    assert recovery.fourth_projection(a, b, x) / 24 == pytest.approx(projected[0].numpy())
    found = losses.regressors_from(1.5 * regressors)[0].numpy()
    assert recovery.regressors_from(np.stack((a, b))) == pytest.approx(found)
    for g in ("identity", "relu", "sigmoid"):
        beta, alpha, _ = transforms(g, 0.4).p3.coefficients
        moments = gaussian_moments(activation_of(g))[:4, :4]
        assert recovery.p3_coefficients(moments, 0.4) == pytest.approx([alpha, beta], abs=1e-9)
