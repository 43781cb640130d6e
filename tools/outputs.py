"""The outputs that a notebook stores: what they keep of a run, and whether another run gives the same."""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Iterator
from typing import Any

import nbformat
import numpy as np
from nbformat import NotebookNode
from PIL import Image

KEPT = ("text/html", "text/markdown", "text/latex", "text/plain", "image/png")
"""Forms of an output that are stored. Widgets are not: they need the kernel that made them."""
ENVIRONMENT = {"MOE_LAB_HEADLESS": "1", "MOE_LAB_BUDGET": "900", "CUDA_VISIBLE_DEVICES": ""}
"""In which notebooks run: on the CPU, with Labs that train inside the cell, to the end even on a busy machine."""
VARIES = "varies"
"""Tag of a cell whose numbers differ from run to run, such as measured times."""
_EXERCISE = re.compile(r"^exercises\.check_", flags=re.M)
_NUMBER = re.compile(r"(?<![A-Za-z_])[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?")
_PERCENT = re.compile(r"\s?%")
_LINE = re.compile("[─━]+")  # of a table, as long as its numbers
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
# What HTML packs: pictures, and the frames and the player of a moving picture. Rounding changes all of a packing;
# the sentences beside it say what it shows.
_PICTURE = re.compile(r"(?<=data:image/png;base64,)[A-Za-z0-9+/=]+")
_PACKED = re.compile(r"<(script|style)>.*?</\1>|[A-Za-z0-9+/=]{200,}", flags=re.S)
_RANDOM_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<=T_)[0-9a-f]{5}\b")
# Two pictures whose pixels differ by less than this on average (of 255) look the same.
_SAME_PIXELS = 1.0
# The smallest mark, in pixels, and how much it changes where it comes or goes; of antialiasing a tenth is left.
_MARK, _SAME_MARK = 8, 20.0
# Rounding differs between machines, and after a thousand steps in float32 it shows.
_RELATIVE, _ABSOLUTE = 0.05, 0.025


def is_exercise(cell: NotebookNode) -> bool:
    """Whether a cell is an exercise, which ends with its check."""
    return cell.cell_type == "code" and _EXERCISE.search(cell.source) is not None


def tidy_outputs(cell: NotebookNode) -> list[NotebookNode]:
    """Returns the outputs of a cell that has run in the form in which they are stored.

    Exercises keep none, so that a learner's page starts empty.
    """
    if is_exercise(cell):
        return []
    kept: list[NotebookNode] = []
    for output in cell.outputs:
        if output.output_type == "stream":
            _append_text(kept, output)
        elif "data" in output:
            data = {kind: _tidied(kind, output.data[kind]) for kind in KEPT if kind in output.data}
            if data:
                kept.append(nbformat.v4.new_output("display_data", data))
    return kept


def tidy_notebook(notebook: NotebookNode) -> NotebookNode:
    """Tidies the outputs of a notebook that has run, in place, and returns it."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = tidy_outputs(cell)
    return notebook


def keep_same_pictures(before: list[NotebookNode], after: list[NotebookNode]) -> None:
    """Puts the stored picture in place of a new one in which no mark differs, unless it is much larger."""
    for old, new in zip(before, after, strict=False):
        stored, made = (output.get("data", {}).get("image/png") for output in (old, new))
        if stored and made and len(stored) < 1.2 * len(made) and same_marks(stored, made):
            new.data["image/png"] = stored


def differences(stored: NotebookNode, run: NotebookNode) -> Iterator[str]:
    """Yields a sentence for each cell whose stored outputs are not those of a run.

    Numbers may differ by rounding and pictures by a few pixels. In cells with the tag `varies` any number will do.

    Args:
      stored, run: the same notebook, with tidy outputs.
    """
    for number, (old, new) in enumerate(zip(stored.cells, run.cells, strict=True)):
        if old.cell_type != "code":
            continue
        varies = VARIES in old.metadata.get("tags", [])
        if len(old.outputs) != len(new.outputs):
            yield f"cell {number} must store {len(new.outputs)} outputs: got {len(old.outputs)}"
            continue
        for first, second in zip(old.outputs, new.outputs, strict=True):
            for kind, (one, other) in _forms(first, second).items():
                same = same_picture if kind == "image/png" else same_text
                if not (one and other and same(one, other, varies)):
                    yield f"cell {number} must store the {kind} that a run gives: {_stated(kind, one, other)}"


def same_text(one: str, other: str, varies: bool = False) -> bool:
    """Whether two texts have the same words, and the same numbers up to rounding; any numbers where they vary."""
    one, other = (_PACKED.sub("…", text) for text in (one, other))
    words = [" ".join(_LINE.sub("─", _NUMBER.sub(" # ", text)).split()) for text in (one, other)]
    numbers = [[_value(number) for number in _NUMBER.finditer(text)] for text in (one, other)]
    if words[0] != words[1]:
        return False
    return varies or all(
        math.isclose(first, second, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
        for first, second in zip(*numbers, strict=True)
    )


def _value(number: re.Match[str]) -> float:
    """What a number in a text says: "6 %" is .06, so that a whole per cent more or less can be rounding."""
    return float(number[0]) / (100 if _PERCENT.match(number.string, number.end()) else 1)


def same_picture(one: str, other: str, varies: bool = False) -> bool:
    """Whether two PNGs, as base64, have one size and nearly the same pixels; any pixels where they vary."""
    first, second = (np.asarray(_image(png), dtype=float) for png in (one, other))
    if first.shape != second.shape:
        return False
    return varies or float(np.abs(first - second).mean()) < _SAME_PIXELS


def same_marks(one: str, other: str) -> bool:
    """Whether two PNGs, as base64, have one size and no square of `_MARK` pixels in which they look different."""
    first, second = (np.asarray(_image(png), dtype=float) for png in (one, other))
    if first.shape != second.shape:
        return False
    apart = np.abs(first - second).mean(2)
    height, width = (size // _MARK * _MARK for size in apart.shape)
    squares = apart[:height, :width].reshape(height // _MARK, _MARK, width // _MARK, _MARK)
    return float(squares.mean((1, 3)).max()) < _SAME_MARK


def optimised(png: str) -> str:
    """A PNG, as base64, encoded anew in a palette of 256 colours where that can hardly be seen."""
    image = _image(png)
    palette = image.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    loss = np.abs(np.asarray(palette.convert("RGB"), dtype=float) - np.asarray(image, dtype=float)).mean()
    content = io.BytesIO()
    (palette if loss < _SAME_PIXELS / 2 else image).save(content, "PNG", optimize=True)
    return base64.b64encode(content.getvalue()).decode()


def _image(png: str) -> Image.Image:
    """The picture on white."""
    image = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")


def _tidied(kind: str, content: str) -> str:
    if kind == "image/png":
        return optimised(content)
    if kind == "text/html":
        content = _PICTURE.sub(lambda picture: optimised(picture[0]), content)
    return _stable(content)


def _stable(text: str) -> str:
    """A text without addresses in memory, and with random identifiers counted through."""
    names: dict[str, str] = {}
    text = _RANDOM_ID.sub(lambda match: names.setdefault(match[0], f"id{len(names)}"), text)
    return _ADDRESS.sub("", text)


def _append_text(kept: list[NotebookNode], output: NotebookNode) -> None:
    """Appends what was printed to the text before it; what goes to stderr, such as progress, is left out."""
    if output.name != "stdout":
        return
    text = _stable(output.text)
    if kept and kept[-1].output_type == "stream":
        kept[-1].text += text
    else:
        kept.append(nbformat.v4.new_output("stream", name="stdout", text=text))


def _forms(one: NotebookNode, other: NotebookNode) -> dict[str, tuple[str, str]]:
    """The contents of two outputs by form; a form that one of them lacks has an empty text there."""
    first, second = _contents(one), _contents(other)
    return {kind: (first.get(kind, ""), second.get(kind, "")) for kind in {**first, **second}}


def _contents(output: NotebookNode) -> dict[str, Any]:
    return {"text/plain": output.text} if output.output_type == "stream" else dict(output.data)


def _stated(kind: str, one: str, other: str) -> str:
    if kind == "image/png":
        return "the pictures differ"
    start = next((i for i, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
    shown = slice(max(0, start - 60), start + 120)
    return f"got {one[shown]!r}, a run gives {other[shown]!r}"
