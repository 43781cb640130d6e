"""Where marks lie that are dragged on a picture, as a page draws them (playground/sketch.js)."""

from __future__ import annotations

from typing import Any

from moe_lab_widgets.drawing.on_axes import box_of, pixels
from moe_lab_widgets.drawing.picture import Picture, drawing_lock
from moe_lab_widgets.drawing.styles import INKS
from moe_lab_widgets.engine.goal import Sketch


def places_of(sketch: Sketch, picture: Picture) -> dict[str, Any]:
    """Returns the places of marks in the pixels of a picture.

    Returns:
      what sketch.js calls `SketchPlaces`.
    """
    with drawing_lock:
        ax = picture.placed[sketch.panel].axes[sketch.axes]
        left, top, wide, high = box_of(ax)
        upright = not sketch.rows
        low, most = ax.get_ylim() if upright else ax.get_xlim()
        across = [left + wide * (number + 1) / (len(sketch.names) + 1) for number in range(len(sketch.names))]
        if sketch.rows:
            across = pixels(ax, [ax.get_xlim()[0]] * len(sketch.rows), sketch.rows)[:, 1].tolist()
        marks = [
            {"name": name, "colour": INKS[style], "across": place}
            for name, style, place in zip(sketch.names, sketch.styles, across, strict=True)
            if upright or top <= place <= top + high
        ]
    ends = {"from": top + high, "to": top} if upright else {"from": left, "to": left + wide}
    sides = {"left": left, "right": left + wide}
    looks = {"upright": upright, "log": sketch.log, "percent": sketch.percent}
    return {**looks, "low": float(low), "high": float(most), **ends, **sides, "marks": marks}
