"""Makes a recording shorter: leaves out what nobody needs, does once what is done twice, and numbers buffers anew."""

from __future__ import annotations

import marshal
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
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


PICTURES = ("furniture", "marks")
_AGAIN = ("enter", "step", "end", "whole", "measure")
KINDS = ("begin", "first", *_AGAIN, *PICTURES)
"""The kinds of programs, in the order in which they run."""
STAGE = "~"
"""What stands before the number of a stage but the first, in the name of a program."""
BY_RUN = ("steps", "ends", "stages", "state", "measured", "constant")
"""What a document has for each run."""


def tidied(document: Document, recorder: OperationRecorder, whole: bool = False) -> Document:
    """Leaves out what nobody needs, does once what several runs begin alike, and numbers buffers anew.

    Raises:
      NotRecordedError: what is needed is an operation that a page cannot do.
    """
    programs: dict[str, list[Operation]] = document["programs"]
    _constants_once(recorder, programs, document)
    _once(programs, document, shared_runs(document["runs"]))
    results = [document["pictures"], document["state"]]
    document["constant"] = document["constant"] if whole else {name: {} for name in document["constant"]}
    results.append(document["constant"])
    results += [some[name] for some in document["measured"].values() for name in document["finite"]]
    results += [document["measured"][one["run"]][one["measure"]] for one in document["history"]]
    if whole:
        results.append(document["measured"])
    stages = max((len(some) for some in document["stages"].values()), default=1)
    again = _AGAIN * (1 + stages)  # one stage needs what another has left, and a step what the step before has
    order = [name for kind in ("begin", "first", *again, *PICTURES) for name in programs if kind_of(name) == kind]
    programs = needed(programs, order, buffers_in(*results))
    lacking = [one.lacking for some in programs.values() for one in some if one.lacking]
    if lacking:
        raise NotRecordedError("\n".join(dict.fromkeys(lacking)))
    read, of_each = buffers_in(*results), {name: _all_buffers(some) for name, some in programs.items()}
    for name in [name for name in programs if kind_of(name) == "whole"]:
        elsewhere = read.union(*(some for other, some in of_each.items() if other != name))
        if _alike(programs[name], programs[f"measure/{rest_of(name)}"], elsewhere):
            del programs[name], of_each[name]
    used = read.union(*of_each.values())
    document["measured"] = {
        run: {name: place for name, place in some.items() if place["buffer"] in used}
        for run, some in document["measured"].items()
    }
    for name in ("draws", "stepDraws", "history"):
        document[name] = [one for one in document[name] if one["place"]["buffer"] in used]
    document["values"] = {name: place for name, place in document["values"].items() if place["buffer"] in used}
    of_programs = {name: [(one.reads, one.results) for one in some] for name, some in programs.items()}
    every = list(_in_order(document, of_programs))
    numbers = _numbers(every)
    for place in {id(place): place for place in every}.values():
        place["buffer"] = numbers[place["buffer"]]
    document["programs"] = {name: [one.told for one in some] for name, some in programs.items()}
    document["buffers"] = [[LETTERS[recorder.buffers[old][0]], recorder.buffers[old][1]] for old in numbers]
    document["constants"] = {
        str(number): _constant(recorder.constants[old]) for old, number in numbers.items() if old in recorder.constants
    }
    return document


def _all_buffers(operations: Sequence[Operation]) -> set[int]:
    return {place["buffer"] for one in operations for place in (*one.reads, *one.results)}


def of_choices(document: Document) -> list[Document]:
    """Returns the recording of each choice: its runs by their names, its picture, and the buffers that these need."""
    return [_of_choice(document, number, runs) for number, runs in enumerate(document["runs"])]


def _of_choice(document: Document, number: int, runs: Mapping[str, str]) -> Document:
    names, shared = {run: name for name, run in runs.items()}, shared_runs(document["runs"])
    programs = {}
    for program, operations in document["programs"].items():
        kind, _, rest = program.partition("/")
        which, slash, key = rest.partition("/")
        run, stage, number_of_stage = rest.partition(STAGE)
        if run in names:
            programs[f"{kind}/{names[run]}{stage}{number_of_stage}"] = operations
        elif kind in PICTURES and which == str(number):
            programs[f"{kind}{slash}{key}"] = operations
    own = {name: value for name, value in document.items() if name not in ("runs", "buffers", "constants")}
    of_runs = {name: {names[run]: one for run, one in document[name].items() if run in names} for name in BY_RUN}
    own |= {name: {of: some[of] for of in runs if of in some} for name, some in of_runs.items()}  # in the runs' order
    own["history"] = [{**one, "run": names[one["run"]]} for one in document["history"] if one["run"] in names]
    own["pictures"], own["programs"] = document["pictures"][number], programs
    read = (*BY_RUN, "history", "pictures", "programs")
    used = {place["buffer"] for place in places_in([own[name] for name in read])}
    own |= {name: [one for one in document[name] if one["place"]["buffer"] in used] for name in ("draws", "stepDraws")}
    own["values"] = {name: place for name, place in document["values"].items() if place["buffer"] in used}
    alone = {name for name, run in runs.items() if run not in shared}
    first = [some for name, some in programs.items() if kind_of(name) not in PICTURES and run_of(name) not in alone]
    users = Counter(buffer for some in programs.values() for buffer in buffers_in(some))
    common = buffers_in({name: one for name, one in own.items() if name != "programs"})
    common |= {buffer for buffer, count in users.items() if count > 1}
    order = chain(places_in(first if alone else []), _in_order(own, programs))
    numbers = _numbers(place for place in order if place["buffer"] in common)
    del own["programs"]
    return {
        **_renumbered(own, numbers),
        "programs": {name: _own_program(document, some, numbers) for name, some in programs.items()},
        "buffers": _buffers(document, numbers),
    }


def _own_program(document: Document, operations: list[Any], common: Mapping[int, int]) -> dict[str, Any]:
    """Returns a program and its own buffers, -1, -2, ...: so it is the same in all recordings that have it."""
    own = _numbers(place for place in places_in(operations) if place["buffer"] not in common)
    numbers = {**common, **{old: -1 - place for old, place in own.items()}}
    return {"operations": _renumbered(operations, numbers), "own": _buffers(document, own)}


def _buffers(document: Document, numbers: Iterable[int]) -> list[Any]:
    """Returns the letter and the size of buffers, and what is in those that are constant."""
    constants = document["constants"]
    return [[*document["buffers"][old], *([constants[str(old)]] if str(old) in constants else [])] for old in numbers]


def shared_runs(choices: Sequence[Mapping[str, str]]) -> set[str]:
    """Returns the runs that all choices have."""
    return set.intersection(*(set(runs.values()) for runs in choices))


def kind_of(program: str) -> str:
    return program.partition("/")[0]


def rest_of(program: str) -> str:
    return program.partition("/")[2]


def run_of(program: str) -> str:
    """Returns the run of a program, whatever the stage."""
    return rest_of(program).partition(STAGE)[0]


def in_stage(run: str, stage: int) -> str:
    """Returns what a run's programs are named after in a stage, counted from 0."""
    return f"{run}{STAGE}{stage}" if stage else run


def _in_order(document: Document, programs: Mapping[str, Any]) -> Iterator[Place]:
    """Yields all places, in an order in which programs that several recordings have alike get the same numbers."""
    names = (
        "first", "ended", "step", "total", "steps", "history", "measured", "state", "draws", "stepDraws", "ends",
        "constant",
    )  # fmt: skip
    yield from places_in([document[name] for name in names])
    for kind in KINDS:  # pictures last, which differ most
        yield from places_in([some for name, some in programs.items() if kind_of(name) == kind])
    yield from places_in([document[name] for name in ("values", "pictures")])


def _numbers(places: Iterable[Place]) -> dict[int, int]:
    """Returns new numbers for buffers, in the order of places."""
    return {old: new for new, old in enumerate(dict.fromkeys(place["buffer"] for place in places))}


def _renumbered(value: Any, numbers: Mapping[int, int]) -> Any:
    """Returns a document whose buffers have other numbers."""
    if isinstance(value, list):
        return [_renumbered(one, numbers) for one in value]
    if not isinstance(value, dict):
        return value
    if "buffer" in value:
        return {**value, "buffer": numbers[value["buffer"]]}
    return {name: _renumbered(one, numbers) for name, one in value.items()}


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


def _once(programs: dict[str, list[Operation]], document: Document, shared: set[str]) -> None:
    """Removes operations that have been done on the same numbers: of how runs begin, and of each picture.

    Args:
      shared: runs on whose beginning others may rely.
    """
    writers = Counter(buffer for some in programs.values() for one in some for buffer in one.written)
    of_begin: dict[bytes, Operation] = {}
    instead: dict[int, int] = {}

    def move(places: Iterable[Place]) -> None:
        for place in places:
            place["buffer"] = instead.get(place["buffer"], place["buffer"])

    for name, some in programs.items():
        kept, picture = [], kind_of(name) in PICTURES
        known = {} if picture else of_begin
        mine = Counter(buffer for one in some for buffer in one.written)
        for one in some:
            move(one.reads)
            move(one.results)
            read = {place["buffer"] for place in one.reads}
            # a picture's measures stay as they are while it is made; that two runs begin with as many zeros is chance
            if picture:
                twice = _are_written_once(one.written, writers, read, mine)
            else:
                twice = bool(read) and kind_of(name) == "begin"
                twice = twice and _are_written_once(one.written, writers, read, writers)
            if twice:
                key = marshal.dumps(one.told[:3], 2)  # of the same nests the same bytes, sooner than JSON
                before = known.setdefault(key, one) if picture or rest_of(name) in shared else known.get(key, one)
                if before is not one:
                    pairs = zip(one.results, before.results, strict=True)
                    instead.update({new["buffer"]: old["buffer"] for new, old in pairs})
                    continue
            kept.append(one)
        programs[name] = kept
    for name in ("measured", "state", "pictures", "history", "constant"):
        move(places_in(document[name]))


def _are_written_once(
    written: set[int], writers: Mapping[int, int], read: set[int], writers_of_read: Mapping[int, int]
) -> bool:
    counts = [*(writers[buffer] for buffer in written), *(writers_of_read[buffer] for buffer in read)]
    return all(count < 2 for count in counts)


def _alike(some: Sequence[Operation], others: Sequence[Operation], elsewhere: set[int]) -> bool:
    """Whether two programs do the same, but for buffers of the first one that nobody reads elsewhere."""
    if len(some) != len(others):
        return False
    instead: dict[int, int] = {}
    for one, other in zip(some, others, strict=True):
        read = [{**place, "buffer": instead.get(place["buffer"], place["buffer"])} for place in one.reads]
        about = [_without_places(part) for part in (one.name, one.arguments, one.named)]
        if read != other.reads or about != [
            _without_places(part) for part in (other.name, other.arguments, other.named)
        ]:
            return False
        for place, own in zip(one.results, other.results, strict=True):
            instead[place["buffer"]] = own["buffer"]
            if {**place, "buffer": 0} != {**own, "buffer": 0}:
                return False
    return all(old == new or old not in elsewhere for old, new in instead.items())


def _without_places(value: Any) -> Any:
    if isinstance(value, dict):
        return "place" if "buffer" in value else {name: _without_places(one) for name, one in value.items()}
    return [_without_places(one) for one in value] if isinstance(value, (list, tuple)) else value


def _constant(values: Tensor) -> Any:
    """Returns a constant's numbers: one number where all are the same, how they go on where all steps are the same."""
    numbers = [number_in_json(value) for value in values.to(torch.float64).tolist()]
    if len(set(numbers)) == 1:
        return numbers[0]
    steps = set(values.to(torch.float64).diff().tolist())
    return {"from": numbers[0], "by": steps.pop()} if len(steps) == 1 and not values.is_floating_point() else numbers
