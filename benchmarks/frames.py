"""What a frame of each Lab costs: CPU time in the kernel, and bytes to the page, beside Agg and PNG."""

from __future__ import annotations

import gzip
import statistics
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

import moe_lab_widgets
from benchmarks.measure import Result
from moe_lab.registry import LABS
from moe_lab_widgets import Lab
from moe_lab_widgets.drawing.picture import encode
from moe_lab_widgets.engine.recorder import Recorder
from moe_lab_widgets.frames.writer import FrameWriter, Stream

EVERY = 8
"""Of so many frames, one is drawn by Agg as well."""
STEPS = ("update", "record", "deflate")


def run(tiny: bool = False) -> list[Result]:
    """With `tiny`, the first three records of each Lab alone."""
    most = 3 if tiny else None
    return [result for lab in LABS for result in measure(getattr(moe_lab_widgets, lab.name), most)]


def records_of(lab: Lab, most: int | None) -> list[Any]:
    """Returns the records of a Lab's whole run that the Lab would keep, or the first of them."""
    kept = Recorder(lab.most_records)
    for record in islice(lab.start(lab.values), most):
        kept.append(record)
    return kept.all()


def picture_of(lab: Lab) -> Any:
    """Returns a picture of its own at the beginning of a run."""
    picture = lab.make_picture(lab.values)
    picture.set_view({knob.name: lab.values[knob.name] for knob in lab.knobs if knob.view_only})
    picture.begin(lab.values)
    return picture


def measure(kind: type[Lab], most: int | None = None) -> list[Result]:
    """Draws every record of a Lab's default run, or the first `most` of them."""
    lab = kind(playing=False)
    lab.wait()
    records, picture = records_of(lab, most), picture_of(lab)
    lab.close()
    writer, stream = FrameWriter(picture), Stream()
    seconds: dict[str, list[float]] = {step: [] for step in (*STEPS, "Agg and PNG")}
    bodies, sent = [], 0
    for number, record in enumerate(records):
        spent, _ = timed(lambda record=record: picture.update(record))
        seconds["update"].append(spent)
        spent, body = timed(lambda number=number: writer.frame(number))
        seconds["record"].append(spent)
        spent, piece = timed(lambda body=body: stream.pack(body))
        seconds["deflate"].append(spent)
        bodies.append(body)
        sent += len(piece)
        if number % EVERY == 0:
            seconds["Agg and PNG"].append(timed(lambda: encode(picture.pixels()))[0])
    picture.close()
    means = {step: 1000 * statistics.fmean(spent[1:] or spent) for step, spent in seconds.items()}  # first: background
    parts = ", ".join(f"{step} {means[step]:.2f}" for step in STEPS)
    beside = f"{parts}; Agg and PNG in place of the last two: {means['Agg and PNG']:.1f}; {len(records)} frames"
    name, ours = f"frames_{kind.__name__}", sum(means[step] for step in STEPS)
    return [
        Result(f"{name}_cpu", ours, "CPU ms a frame", note=beside),
        Result(f"{name}_over_png", ours / (means["update"] + means["Agg and PNG"]), "times", 0.5),
        Result(f"{name}_bytes", sent / len(records), "bytes a frame", 3072, note="with background and resources"),
        Result(f"{name}_run", len(gzip.compress(b"".join(bodies), 9)) / 1000, "kB a run", 400, note="gzip -9"),
    ]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Returns the CPU seconds of a call, and what it returns."""
    begin = time.thread_time()
    result = work()
    return time.thread_time() - begin, result
