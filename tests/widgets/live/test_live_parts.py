"""The parts of a page that are written by hand, each beside its reference: products, bases, words, layouts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from moe_lab.drawing.words import say, written
from moe_lab.recovery.em import solved
from moe_lab.recovery.matching import assigned, bottleneck
from moe_lab_widgets.live import page
from moe_lab_widgets.live.folding import folded
from moe_lab_widgets.live.operations import OperationRecorder, known, number_in_json, plain
from tests.widgets.playground.in_node import answered

RUN = """
import fs from "node:fs";
import { Engine } from "./engine.js";
const { recorded, results } = JSON.parse(fs.readFileSync(0));
const engine = new Engine(recorded, results.map((place) => place.buffer));
engine.run("all");
const plain = (value) => (Number.isFinite(value) ? value : String(value));
console.log(JSON.stringify(results.map((place) => [...engine.read(place)].map(plain))));
"""
WRITE = """
import fs from "node:fs";
import { written } from "./written.js";
const asked = JSON.parse(fs.readFileSync(0));
console.log(JSON.stringify(asked.map(([text, number]) => written({ text, numbers: [number] }))));
"""
UNFOLD = """
import fs from "node:fs";
import { unfolded } from "./folding.js";
console.log(JSON.stringify(JSON.parse(fs.readFileSync(0)).map(unfolded)));
"""


def in_node(folder: Path, script: str, asked: Any, module: str) -> Any:
    return answered(script, asked, module, modules=page.modules(), folder=folder)


def repeated(folder: Path, compute: Any, *given: torch.Tensor) -> None:
    """Asserts that a page computes what torch does."""
    recorder = OperationRecorder()
    with recorder.program("all"):
        made = compute(*given)
    results = [recorder.place(one) for one in made]
    letters = {torch.float64: "f", torch.int64: "i", torch.uint8: "i", torch.int32: "i", torch.bool: "b"}
    recorded = {
        "programs": {"all": [one.told for one in recorder.programs["all"]]},
        "buffers": [[letters[dtype], count] for dtype, count in recorder.buffers],
        "constants": {
            number: [number_in_json(value) for value in values.double().tolist()]
            for number, values in recorder.constants.items()
        },
    }
    found = in_node(folder, RUN, {"recorded": recorded, "results": results}, "engine")
    for one, mine in zip(found, made, strict=True):
        wanted = mine.double().numpy().ravel()
        np.testing.assert_allclose([float(value) for value in one], wanted, rtol=1e-13, atol=1e-13)


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def test_products_of_all_layouts_and_odd_sizes(tmp_path: Path) -> None:
    def compute(*given: torch.Tensor) -> list[torch.Tensor]:
        left, right, flat = given
        return [
            left @ right, left.mT @ left, left[:, :1] @ right, left @ right[..., :1], left @ right[..., ::3],
            flat @ flat.T, right.mT @ left.mT, left[:, :2, :3] @ right[:, :3, :5],
        ]  # fmt: skip

    repeated(tmp_path, compute, random(3, 7, 6), random(3, 6, 13), random(5, 9))


def test_a_basis_spans_what_it_should_and_is_orthonormal(tmp_path: Path) -> None:
    def compute(given: torch.Tensor) -> list[torch.Tensor]:
        basis, triangular = torch.linalg.qr(given)
        signs = triangular.diagonal(dim1=-2, dim2=-1).sign()
        return [basis * signs[..., None, :], triangular * signs[..., None]]

    repeated(tmp_path, compute, random(4, 12, 5))


def test_eigenvectors_and_pseudo_inverses(tmp_path: Path) -> None:
    def compute(square: torch.Tensor, wide: torch.Tensor) -> list[torch.Tensor]:
        values, vectors = torch.linalg.eigh(square @ square.mT)
        vectors = vectors * vectors.sum(1, keepdim=True).sign()
        of_one, _ = torch.linalg.eigh(torch.eye(3, dtype=torch.float64) + 1)
        short = wide[0].clone()
        short[2] = short[0] - 2 * short[1]
        return [values, vectors, of_one, *(torch.linalg.pinv(one) for one in (wide, short, 0 * wide[1]))]

    repeated(tmp_path, compute, random(5, 4, 4), random(3, 4, 9))


def test_solutions_of_linear_equations(tmp_path: Path) -> None:
    def compute(square: torch.Tensor, right: torch.Tensor) -> list[torch.Tensor]:
        swapped = torch.eye(3, dtype=torch.float64)[[1, 2, 0]]
        pairs = [(square, right), (square.mT[:4].view(2, 2, 6, 6), right[:4].view(2, 2, 6)), (swapped, right[0, :3])]
        singular = solved(torch.ones(2, 2, dtype=torch.float64), right[0, :2])
        return [*(solved(*pair) for pair in pairs), singular.isfinite().all()]

    repeated(tmp_path, compute, random(5, 6, 6), random(5, 6))


@pytest.mark.parametrize("k", [1, 2, 5, 8])
def test_assignments(tmp_path: Path, k: int) -> None:
    """Each is the best of all permutations, some of costs that are equal or far."""

    def compute(values: torch.Tensor, rounded: torch.Tensor) -> list[torch.Tensor]:
        far = torch.where(values > 1, 1e9, values)
        sums = [one.gather(2, assigned(one)[..., None]).sum() for one in (rounded, -rounded)]
        return [assigned(values), assigned(-values.mT), assigned(far), *sums, *map(bottleneck, (values, rounded))]

    values = random(20, k, k)
    repeated(tmp_path, compute, values, values.round())


def test_normal_quantiles(tmp_path: Path) -> None:
    shares = torch.cat((torch.linspace(0.0, 1.0, 101), 10.0 ** -torch.arange(1, 300, 7))).double()
    repeated(tmp_path, lambda x: [torch.special.ndtri(x)], shares)


def test_operations_on_every_layout(tmp_path: Path) -> None:
    def compute(x: torch.Tensor, y: torch.Tensor, place: torch.Tensor) -> list[torch.Tensor]:
        odd = torch.tensor([3.0, torch.nan, -torch.inf, torch.inf, -0.5, 3.0], dtype=torch.float64)
        written = torch.zeros(4, 5, 6, dtype=torch.float64)
        written[:, 1::2] += x[:, :2]
        written[1].mul_(2)
        return [
            x.mT + y[0].T, x - y * 2, x.softmax(1), x.log_softmax(-1), x.logsumexp(1), x.sum((0, 2)),
            x.mean(1, keepdim=True), x.amax(0), x.amin((1, 2)),
            x.cumsum(2), *x.sort(dim=1, descending=True, stable=True), *x.max(2), *odd.sort(),
            odd.nan_to_num(7), odd.clamp(-1, 2), odd.isfinite(), odd.argmax(), torch.where(x > 0, x, y.abs().sqrt()),
            x.gather(1, place), written, written.scatter(1, place, -1.0), x[torch.arange(4)[:, None], place[:, :, 0]],
            torch.cat((x, y[:, :1]), 1), torch.stack((x, y), -1), torch.nn.functional.softplus(30 * x), x.sigmoid(),
            torch.special.entr(odd), x % 0.3, x // 0.7, x.norm(dim=(1, 2)), (x > 0).count_nonzero(1),
            ~(x > 0) | (y > 1), (5 * x).long(), x**3, 1 / x, x.tanh(), 2 - x, torch.maximum(odd, -odd),
            x.max(), x.min(), x.sum(), torch.minimum(odd, -odd), odd.clamp_min(0), x.masked_fill(x > 0, -2.0),
            torch.ops.aten.threshold_backward(x, y, 0.5), torch.nn.functional.pad(x, (1, 2, 0, 3), value=7.0),
            torch.baddbmm(x @ y.mT, x, y.mT, alpha=-0.25), x.index_select(1, place[0, 0]),
            torch.nn.functional.embedding(place[:, :, 0], y[0]), torch.eye(3), torch.linspace(-1, 2, 7),
            torch.full((2, 3), 4.5), x.new_full((2,), 0.5), torch.zeros_like(x).fill_(3).zero_(),
            torch.nn.functional.logsigmoid(5 * x), (3 * (x > 0).long()) << torch.arange(6), odd.isnan(), odd.sign(),
            x[place[:, 0, 0], :, place[:, 1, 1]], x[:, place[0, 0], 1:], (x > 0).logical_and(y > 1),
            (x > 1).any(1), (x > 9).any(), x.ceil(), torch.searchsorted(place[0, 0].sort()[0], place[1, 0]),
            torch.searchsorted(place[0, 0].sort()[0], place[1, 0], right=True), x.cos(), x.clamp(-1, 1).acos(),
        ]  # fmt: skip

    torch.set_default_dtype(torch.float64)
    place = torch.randint(0, 3, (4, 2, 6), generator=torch.Generator().manual_seed(0))
    try:
        repeated(tmp_path, compute, random(4, 5, 6), random(4, 5, 6) + 1, place)
    finally:
        torch.set_default_dtype(torch.float32)


def test_slopes_of_operations(tmp_path: Path) -> None:
    def compute(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        variable, found = x.detach().requires_grad_(), []
        for value in (
            variable.softmax(1), variable.sigmoid(), torch.nn.functional.softplus(9 * variable),
            torch.nn.functional.logsigmoid(variable), variable[:, 1:4, ::2], variable.clamp_min(0), variable.sum(1),
        ):  # fmt: skip
            (slope,) = torch.autograd.grad((value * y.flatten()[: value.numel()].view_as(value)).sum(), variable)
            found.append(slope)
        return found

    repeated(tmp_path, compute, random(4, 5, 6), random(4, 5, 6) + 1)


@pytest.mark.parametrize(("groups", "stride", "padding", "kernel"), [(1, 1, 1, 3), (3, 2, 0, 3), (2, 1, 0, 1)])
def test_convolutions_and_their_slopes(tmp_path: Path, groups: int, stride: int, padding: int, kernel: int) -> None:
    def compute(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> list[torch.Tensor]:
        given = [one.detach().requires_grad_() for one in (x, weight, bias)]
        wider = torch.nn.functional.pad(given[0], (0, 1, 0, 1))  # whose slope is a padding that cuts off
        found = torch.nn.functional.conv2d(wider, *given[1:], stride=stride, padding=padding, groups=groups)
        return [found.detach(), *torch.autograd.grad(found.square().sum(), given)]

    weight, bias = random(2 * groups, 4, kernel, kernel), random(2 * groups)
    repeated(tmp_path, compute, random(3, 4 * groups, 6, 7), weight, bias)


def test_batch_norm_in_training_and_afterwards(tmp_path: Path) -> None:
    def compute(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> list[torch.Tensor]:
        given = [one.detach().requires_grad_() for one in (x, weight, bias)]
        mean, variance = torch.zeros(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64)
        training, later = (
            torch.nn.functional.batch_norm(given[0], mean, variance, *given[1:], training=one, momentum=0.3)
            for one in (True, False)
        )
        slopes = torch.autograd.grad((training.relu() ** 3 + later).sum(), given)
        return [training.detach(), later.detach(), mean, variance, *slopes, x.square().rsqrt(), x.clone().relu_()]

    repeated(tmp_path, compute, random(5, 4, 3, 3), random(4), random(4))


def test_a_long_line_is_sorted_as_a_short_one(tmp_path: Path) -> None:
    values = random(3, 200).mul(4).round()
    repeated(tmp_path, lambda x: [*x.sort(dim=1, stable=True), *x.sort(dim=1, descending=True, stable=True)], values)


def test_python_knows_the_operations_of_a_page(tmp_path: Path) -> None:
    """Those that it finds in the modules, a page can do; others it finds wanting before a page is written."""
    script = """
import fs from "node:fs";
import { madeOf } from "./operations.js";
const missing = (name) => {
  try { madeOf({}, name, {}); } catch (error) { return error.message.startsWith("a page cannot do the operation"); }
  return false;
};
console.log(JSON.stringify(JSON.parse(fs.readFileSync(0)).map(missing)));"""
    asked = [*(f"{name}_" for name in sorted(known())), "erfinv", "linalg_eigh"]  # as what writes in place is named
    assert in_node(tmp_path, script, asked, "operations") == [False] * len(known()) + [True, True]
    assert {"add", "bmm", "sort", "where", "baddbmm"} <= known() and plain("add_.Tensor") == "add"


def test_words_are_written_as_in_python(tmp_path: Path) -> None:
    values = [0.5, 1.5, 2.5, 0.125, 0.375, -0.25, 1234567.0, 0.005, 9.95, 9.949, -12.5, 0.0, 99.95, 1e-9, float("nan")]
    values += np.random.default_rng(0).normal(size=40).tolist()
    forms = ["{:.0f}", "{:.1f}", "{:.2f}", "{:,.0f}", "{:.0%}", "{:.1%}", "{:.1s}", "{:.2g}", "{:.6g}", "a {:.2f} b"]
    asked = [[form, value] for form in forms for value in values]
    found = in_node(tmp_path, WRITE, json.loads(json.dumps([[form, str(value)] for form, value in asked])), "written")
    assert found == [written(say(form, value)) for form, value in asked]


def test_names_of_things_are_written_as_in_python(tmp_path: Path) -> None:
    every = [[0, 0, 0], [1, 0, 0], [1, 0, 1], [1, 1, 1], [0, 0, 1]]
    asked = [["of {:names}.", {"sizes": [3], "data": one}] for one in every]
    found = in_node(tmp_path, WRITE, asked, "written")
    assert found == [written(say("of {:names}.", torch.tensor(one))) for one in every]
    assert found[2:4] == ["of 1 and 3.", "of 1, 2 and 3."]


def test_a_folded_document_is_shorter_and_unfolds_to_itself(tmp_path: Path) -> None:
    """Whatever its texts hold: what stands before references, characters of two units, and words like references."""
    part = "".join(f"{letter}{number}," for number in range(60) for letter in "abc")
    texts = ["`5,50;", "a \U0001f9ee in a story", "\u00e9\u2113\u2082", part, "x" * 500, "", f"{part}`{part}"]
    document = json.dumps({"texts": texts, "again": texts[::-1]}, ensure_ascii=False)
    short = folded(document)
    (whole,) = in_node(tmp_path, UNFOLD, [short], "folding")
    assert json.loads(whole) == json.loads(document)
    assert len(short) < len(document) / 2
