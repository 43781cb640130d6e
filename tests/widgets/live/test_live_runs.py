"""A page's run is the library's: every measure of every record, the marks, notes and sentences, at random settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import moe_lab_widgets
from moe_lab.drawing.words import Words, written
from moe_lab.specialization import model
from moe_lab_widgets.drawing.mark_record import MarkRecord, MarkValues
from moe_lab_widgets.engine.record import side_by_side
from moe_lab_widgets.live import documents, page
from moe_lab_widgets.live.declare import LivePage
from moe_lab_widgets.live.recording import recorded
from moe_lab_widgets.live.template import Fitted, template
from moe_lab_widgets.live.tidying import of_choices
from moe_lab_widgets.playground.declared import defaults_of, offered
from tests.helpers.effort import one_in
from tests.helpers.marks import close, same, same_goals
from tests.widgets.playground.in_node import answered

ASK = """
import fs from "node:fs";
import { Run } from "./run.js";
import { instantiate } from "./template.js";
import { Session } from "./session.js";
import { written } from "./written.js";
const { document, values, every, key } = JSON.parse(fs.readFileSync(0));
const told = [];
const session = new Session((message) => told.push(message));
session.receive({ type: "load", text: JSON.stringify(document) });
session.receive({ type: "begin", id: 1, values, every, playing: false });
const measured = [];
const numbersOf = (name) => Object.fromEntries(Object.entries(session.run.recorded.measured[name]).map(
  ([measure, place]) => [measure, [...session.run.engine.read(place)]]));
const keep = () => measured.push(Object.fromEntries(session.run.names.map((name) => [name, numbersOf(name)])));
if (session.run) keep();
while (session.run && !session.run.ended) {
  session.receive({ type: "step" });
  keep();
}
const plain = (one) => Array.isArray(one) ? one.map(plain)
  : one && typeof one === "object" ? ("data" in one ? { sizes: one.sizes, data: [...one.data].map(plain) }
    : Object.fromEntries(Object.entries(one).map(([name, own]) => [name, plain(own)])))
  : typeof one === "number" && !Number.isFinite(one) ? String(one) : one;
const said = told.map((one) => one.type !== "record" ? one : { ...one, pictures: { [key]: one.pictures[key] },
  words: written(one.pictures[key].sentence) });
console.log(JSON.stringify(plain({ said, measured })));
"""


@cache
def document_of(lab: str) -> Any:
    """Returns what the page of a Lab has."""
    return json.loads(documents.document(getattr(moe_lab_widgets, lab)))


def some_variants(lab: str) -> list[Mapping[str, Any]]:
    """Returns the choices of some variants, first that of the defaults."""
    kind = getattr(moe_lab_widgets, lab)
    how = documents.page_of(kind)
    usual = how.choice_of(defaults_of(kind))
    return [usual, *one_in(13, [when for when in how.variants if when != usual], first=1)]


SAMPLES = {"GridlockLab": (400, 800)}
"""Limits of half of the samples, where few are too few: EM that does not get anywhere magnifies rounding."""
MAGNIFIED = {"GridlockLab": 1e-7}
"""The relative error up to which measures may differ, where iterations leave saddles and magnify rounding."""


def moving(how: LivePage) -> set[str]:
    """Returns the names of what may have any value: numbers, and the knobs of which sizes come."""
    return {*how.numbers, *(name for size in how.derived.values() for name in size.powers)}


def settings(lab: str, when: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Returns random values that sliders offer and that fit together, of a short run."""
    kind, random = getattr(moe_lab_widgets, lab), np.random.default_rng(seed)
    how = documents.page_of(kind)
    while True:
        values = defaults_of(kind) | dict(how.fixed)
        for knob in kind.knobs:
            if knob.name in moving(how) or (knob.view_only and knob.name not in how.fixed):
                values[knob.name] = offered(knob)[int(random.integers(len(offered(knob))))]
        for name, choice in when.items():
            values[name] = int(random.integers(choice[0], choice[1] + 1)) if isinstance(choice, tuple) else choice
        values |= {"seed": int(random.integers(1000)), "steps": 23}
        if lab == "PatchMapLab":  # whole batches, of convolutions, which take long
            values |= {"samples": int(random.choice([100, 200])), "trials": int(random.choice([1, 2])), "steps": 9}
        elif "samples" in values:
            values["samples"] = int(random.integers(*SAMPLES.get(lab, (20, 80)))) * 2
        # larger ones may diverge, and magnify rounding; more trials take longer
        for name, most in {"strength": 0.3, "learning_rate": 20.0, "trials": 6, "iterations": 60}.items():
            if name in values:
                values[name] = min(values[name], most)
        if values.get("router_noise") == 0:  # then experts that nobody uses stay equal, and rounding decides
            values["router_noise"] = 0.1
        try:
            kind.declaration.runs(values)
        except ValueError:
            continue
        if how.choice_of(values) == when:
            return values


class RoundingError(AssertionError):
    """Measures differ. Rounding may decide that, where two experts' scores are equal but for it."""


def assert_same_run(lab: str, when: Mapping[str, Any], document: Any, seed: int, folder: Path) -> None:
    """Asserts that a page's run of random values is the library's."""
    kind, every, within = getattr(moe_lab_widgets, lab), 4, MAGNIFIED.get(lab, 1e-12)
    values = settings(lab, when, seed)
    pictures = [knob.name for knob in kind.knobs if documents.chooses_picture(knob, documents.page_of(kind))]
    view = "".join(f"/{values[name]}" for name in pictures)
    found = answered(
        ASK,
        {"document": document, "values": values, "every": every, "key": view},
        "run", "template", "session", "written",
        modules=page.modules(), folder=folder,
    )  # fmt: skip
    runs = {
        name: run.replace(precision="float64", seed=values["seed"], record_every=every, device="cpu")
        for name, run in kind.declaration.runs(values).items()
    }
    steps = kind.declaration.steps(values) if kind.declaration.steps else values["steps"]
    mine = list(
        side_by_side(
            {name: lambda run=run: kind.declaration.training(run).snapshots() for name, run in runs.items()},
            values,
            steps,
        )
    )[len(runs) > 1 :]  # of several, Python's first record has one run alone
    told = [one for one in found["said"] if one["type"] == "record"]
    assert found["said"][0]["type"] == "begun", found["said"][0]
    assert ([one["step"] for one in told], values) == ([record.step for record in mine], values)
    furniture = found["said"][0]["furniture"][view]
    for place, panel in enumerate(kind.declaration.panels):
        note = panel.marks.note
        same(furniture[place]["axes"], list(panel.marks.furniture(MarkValues(values))), panel.title)
        wanted = Words(note) if isinstance(note, str) else note(MarkValues(values))
        same(furniture[place]["note"], wanted, f"{panel.title}, note")
    for record, measured, one in zip(mine, found["measured"], told, strict=True):
        for name, shot in record.parts.items():
            for measure, value in shot.values.items():
                if measure in measured[name]:  # a page has what a picture reads
                    try:
                        said = f"{name}, {measure}, step {record.step}, {values}"
                        close(measured[name][measure], value, said, within=within)
                    except AssertionError as error:
                        raise RoundingError(*error.args) from error
        now = MarkRecord(record)
        assert (one["words"], values) == (written(kind.declaration.caption.words(now)), values)
        asked = kind.declaration.question
        same(one["pictures"][view]["right"], asked.right(now), "the right answer", within)
        same(one["pictures"][view]["seen"], asked.seen(now), "what was seen", within)
        same(one["pictures"][view]["ends"], asked.sketch.ends(now), "where what is drawn should end", within)
        same_goals(kind, one["pictures"][view], now, f"step {record.step}, {values}", within)
        for place, panel in enumerate(kind.declaration.panels):
            same(
                one["pictures"][view]["panels"][place],
                list(panel.marks.draw(now)),
                f"{panel.title}, {record.step}",
                within,
            )


@pytest.mark.slow
@pytest.mark.parametrize("lab", documents.of_runs())
def test_a_run_in_a_page_is_the_librarys(lab: str, tmp_path: Path) -> None:
    """Of four runs three at least, to 1e-12: in one of thirty a sample goes to another expert, on any processor."""
    differ, variants = [], some_variants(lab)
    seeds = range(max(2, 4 // len(variants)))
    for which, when in enumerate(variants):
        for seed in seeds:
            try:
                assert_same_run(lab, when, document_of(lab), 100 * which + seed, tmp_path)
            except RoundingError as error:
                differ.append(error)
    assert len(differ) <= len(variants) * len(seeds) // 4, differ


ENDS = """
import fs from "node:fs";
import { Session } from "./session.js";
const { document, all } = JSON.parse(fs.readFileSync(0));
const told = [];
const session = new Session((message) => told.push(message));
session.receive({ type: "load", text: JSON.stringify(document) });
for (const values of all) {
  session.receive({ type: "begin", id: 1, values, every: 1, playing: false });
  if (session.run) session.receive({ type: "step" });
}
const failed = told.filter((one) => one.type === "failed").map(({ words }) => words);
console.log(JSON.stringify({ failed, records: told.filter((one) => one.type === "record").length }));
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "lab", ["RouterAlignmentLab", "SpecializationLab", "PruningLab", "LandscapeLab", "RoutingChoicesLab"]
)
def test_every_slider_can_be_at_its_ends(lab: str, tmp_path: Path) -> None:
    kind = getattr(moe_lab_widgets, lab)
    how, defaults = documents.page_of(kind), defaults_of(kind)
    defaults |= {"trials": 2, **({"samples": 60} if "samples" in defaults else {})}
    when, document = some_variants(lab)[0], document_of(lab)
    every = []
    for knob in kind.knobs:
        for value in (offered(knob)[0], offered(knob)[-1]) if knob.name in moving(how) else ():
            values = defaults | {knob.name: value}
            try:
                kind.declaration.runs(values)
            except ValueError:
                continue
            if how.choice_of(values) == when:
                every.append(values)
    found = answered(ENDS, {"document": document, "all": every}, "session", modules=page.modules(), folder=tmp_path)
    assert found == {"failed": [], "records": 2 * len(every)} and len(every) > len(kind.knobs), found


LOOKS = """
import fs from "node:fs";
import { Session } from "./session.js";
const { document, values, view } = JSON.parse(fs.readFileSync(0));
const drawn = (values, later) => {
  const told = [];
  const session = new Session((message) => told.push(message));
  session.receive({ type: "load", text: JSON.stringify(document) });
  session.receive({ type: "begin", id: 1, values, every: 4, playing: false });
  session.receive({ type: "step" });
  if (later) session.receive({ type: "look", values: later });
  while (!session.run.ended) session.receive({ type: "step" });
  if (later) session.receive({ type: "look", values: later });
  while (session.stale.length) session.refresh();
  const records = [];
  for (const one of told) if (one.type === "record") records[one.index ?? records.length] = { ...one, index: 0 };
  return JSON.stringify([records, told.filter((one) => one.furniture).pop().furniture]);
};
const [looked, begun] = [drawn(values, { ...values, ...view }), drawn({ ...values, ...view }, null)];
const alike = looked.replaceAll('"index":0', "") === begun.replaceAll('"index":0', "");
console.log(JSON.stringify({ alike, moved: looked !== drawn(values, null) }));
"""


def test_a_knob_that_only_decides_what_is_seen_draws_all_records_anew(tmp_path: Path) -> None:
    """As a run would that had begun so, also while it goes on."""
    kind = moe_lab_widgets.PruningLab
    small = {"trials": 2, "experts": 6, "tokens": 10, "patterns": 100, "steps": 12}
    values = {**defaults_of(kind), **small}
    view = {"rho": 0.35, "criterion": "neuron-magnitude", "shown": 2}
    given = {"document": document_of(kind.__name__), "values": values, "view": view}
    found = answered(LOOKS, given, "session", modules=page.modules(), folder=tmp_path)
    assert found == {"alike": True, "moved": True}


@pytest.mark.slow
def test_a_page_follows_a_change_of_the_librarys_mathematics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another loss, (1 - t)^2 in place of the logistic one: no JavaScript knows of it."""
    squared = model.Loss(lambda margin: (1 - margin).square(), lambda margin: 2 * (margin - 1))
    monkeypatch.setitem(model.LOSSES, "paper", squared)
    kind = moe_lab_widgets.SpecializationLab
    how = documents.page_of(kind)
    when = {"activation": "linear"}
    made = documents.recordings_of(kind, how, [when])
    assert_same_run(
        kind.__name__, when, json.loads(documents.document_of(how, [when], made, {"length": "steps"})), 7, tmp_path
    )


def test_what_depends_on_a_knob_in_another_way_is_refused() -> None:
    def record(values: Mapping[str, float]) -> Any:
        return {"size": values["n"] * 2 ** values["k"], "name": "a"}

    with pytest.raises(RuntimeError, match=r"a number depends on the knobs in a way that is not known: .size"):
        template(record, [Fitted("n", (3, 5, 7)), Fitted("k", (2, 4, 6))], {})
    with pytest.raises(RuntimeError, match=r"operations depend on knobs: .name is 3 at first, 4 for n = 4"):
        template(lambda values: {"name": str(values["n"])}, [Fitted("n", (3, 4, 5))], {})


def test_how_a_size_depends_on_several_knobs_is_found() -> None:
    def size(values: Mapping[str, float]) -> float:
        return values["t"] * (40 + values["k"] * values["c"]) * 32

    knobs = [Fitted("t", (5, 7, 6)), Fitted("k", (8, 4, 2)), Fitted("c", (6, 9, 5))]
    found = template(lambda values: {"size": size(values)}, knobs, {})["size"]["formula"]
    terms = {tuple((name, power) for name, power in powers): factor for factor, powers in found}
    assert terms == {(("t", 1.0),): 1280.0, (("c", 1.0), ("k", 1.0), ("t", 1.0)): 32.0}


@pytest.mark.slow
def test_what_choices_have_alike_is_the_same_in_their_recordings() -> None:
    kind = moe_lab_widgets.RoutingChoicesLab
    choices = [{"order": "arrival"}, {"order": "priority"}]
    values = defaults_of(kind) | {"samples": 30, "trials": 2, "patches": 9}
    one, other = (recording["programs"] for recording in of_choices(recorded(kind, values, choices=choices)))
    assert list(one) == list(other)
    alike = {name for name in one if one[name] == other[name]}
    own = {f"{part}/chosen" for part in ("first", "step", "end", "measure")}
    assert set(one) - alike == own | {"furniture", "marks"}


def test_a_lab_that_is_not_recorded_is_refused() -> None:
    with pytest.raises(ValueError, match="a Lab must be made of marks, and say how it is recorded"):
        documents.page_of(moe_lab_widgets.ModelPruningLab)


def test_what_reads_a_number_is_refused_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from moe_lab.specialization import learners

    kind = moe_lab_widgets.SpecializationLab
    before = learners.MixtureLearner.test_measures

    def reads(self: Any) -> Any:
        assert float(self.loss.sum()) == 0
        return before(self)

    monkeypatch.setattr(learners.MixtureLearner, "test_measures", reads)
    with pytest.raises(RuntimeError, match="reads a number, which a page has to decide anew"):
        recorded(kind, defaults_of(kind) | {"samples": 30, "trials": 2})


def test_an_operation_that_a_page_lacks_is_refused_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        model.LOSSES, "paper", model.Loss(lambda margin: margin.erfinv(), lambda margin: margin.erfinv())
    )
    kind = moe_lab_widgets.SpecializationLab
    with pytest.raises(RuntimeError, match=r"a page cannot do the operation erfinv\.default: in .*\.py, line \d+"):
        recorded(kind, defaults_of(kind) | {"samples": 30, "trials": 2})
