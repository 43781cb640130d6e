"""Makes a recording shorter: leaves out what nobody needs, does once what is done twice, and numbers buffers anew."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from moe_lab_widgets.live.operations import (
    NotRecordedError,
    Operation,
    OperationRecorder,
    Place,
    buffers_in,
    needed,
    number_in_json,
    places_in,
)

Document = dict[str, Any]
LETTERS = {
    torch.float64: "f", torch.float32: "f", torch.int64: "i", torch.int32: "i", torch.int8: "i", torch.uint8: "i",
    torch.bool: "b",
}  # fmt: skip


def tidied(document: Document, recorder: OperationRecorder, whole: bool) -> Document:
    """Leaves out what nobody needs, does once what several runs begin alike, and numbers buffers anew.

    Raises:
      NotRecordedError: what is needed is an operation that a page cannot do.
    """
    programs: dict[str, list[Operation]] = document["programs"]
    _constants_once(recorder, programs, document)
    _begun_once(programs, document)
    results = [document["pictures"], document["state"]]
    document["constant"] = document["constant"] if whole else {name: {} for name in document["constant"]}
    results.append(document["constant"])
    results += [some[name] for some in document["measured"].values() for name in document["finite"]]
    results += [document["measured"][one["run"]][one["measure"]] for one in document["history"]]
    if whole:
        results.append(document["measured"])
    again = ("step", "end", "whole", "measure")
    kinds = ("begin", "first", *again, *again, "furniture", "marks")
    order = [name for kind in kinds for name in programs if name.partition("/")[0] == kind]
    programs = needed(programs, order, buffers_in(*results))
    lacking = [one.lacking for some in programs.values() for one in some if one.lacking]
    if lacking:
        raise NotRecordedError(lacking[0])
    used = buffers_in(*results).union(*(one.buffers for some in programs.values() for one in some))
    document["measured"] = {
        run: {name: place for name, place in some.items() if place["buffer"] in used}
        for run, some in document["measured"].items()
    }
    for name in ("draws", "stepDraws", "history"):
        document[name] = [one for one in document[name] if one["place"]["buffer"] in used]
    document["values"] = {name: place for name, place in document["values"].items() if place["buffer"] in used}
    # in an order in which programs that several recordings have alike get the same numbers
    names = (
        "values", "first", "ended", "step", "total", "steps", "history", "measured", "state", "pictures", "draws",
        "stepDraws", "ends", "constant",
    )  # fmt: skip
    every = [place for name in names for place in places_in(document[name])]
    for kind in reversed(dict.fromkeys(kinds)):
        for name, some in programs.items():
            if name.partition("/")[0] == kind:
                every += [place for one in some for place in (*one.reads, *one.results)]
    numbers = {old: new for new, old in enumerate(dict.fromkeys(place["buffer"] for place in every))}
    for place in {id(place): place for place in every}.values():
        place["buffer"] = numbers[place["buffer"]]
    document["programs"] = {name: [one.told for one in some] for name, some in programs.items()}
    document["buffers"] = [[LETTERS[recorder.buffers[old][0]], recorder.buffers[old][1]] for old in numbers]
    document["constants"] = {
        str(number): _constant(recorder.constants[old]) for old, number in numbers.items() if old in recorder.constants
    }
    return document


def _constants_once(recorder: OperationRecorder, programs: dict[str, list[Operation]], document: Document) -> None:
    """Has one buffer for long lists of constants that are the same and that no program writes.

    Not for others: a number may be that of another knob by chance.
    """
    written = {buffer for some in programs.values() for one in some for buffer in one.written}
    known: dict[Any, int] = {}
    instead = {
        buffer: known.setdefault((values.dtype, values.numpy().tobytes()), buffer)
        for buffer, values in recorder.constants.items()
        if buffer not in written and isinstance(_constant(values), list)
    }
    places = [place for some in programs.values() for one in some for place in (*one.reads, *one.results)]
    for place in (*places, *places_in({name: one for name, one in document.items() if name != "programs"})):
        place["buffer"] = instead.get(place["buffer"], place["buffer"])


def _begun_once(programs: dict[str, list[Operation]], document: Document) -> None:
    """Removes operations of `begin` that an earlier run has done on the same buffers, all of which are written once."""
    writers: dict[int, int] = {}
    for some in programs.values():
        for one in some:
            for buffer in one.written:
                writers[buffer] = writers.get(buffer, 0) + 1
    known: dict[str, Operation] = {}
    instead: dict[int, int] = {}

    def move(places: Iterable[Place]) -> None:
        for place in places:
            place["buffer"] = instead.get(place["buffer"], place["buffer"])

    for name, some in programs.items():
        kept = []
        for one in some:
            move(one.reads)
            move(one.results)
            if name.startswith("begin/") and all(writers.get(buffer, 0) < 2 for buffer in one.buffers):
                before = known.setdefault(json.dumps(one.told[:3]), one)
                if before is not one:
                    pairs = zip(one.results, before.results, strict=True)
                    instead.update({new["buffer"]: old["buffer"] for new, old in pairs})
                    continue
            kept.append(one)
        programs[name] = kept
    for name in ("measured", "state", "pictures", "history", "constant"):
        move(places_in(document[name]))


def _constant(values: Tensor) -> Any:
    """Returns a constant's numbers: one number where all are the same, how they go on where all steps are the same."""
    numbers = [number_in_json(value) for value in values.to(torch.float64).tolist()]
    if len(set(numbers)) == 1:
        return numbers[0]
    steps = set(values.to(torch.float64).diff().tolist())
    return {"from": numbers[0], "by": steps.pop()} if len(steps) == 1 and not values.is_floating_point() else numbers
