"""MNIST beside the data that a Lab holds itself: offered where the user names a folder, or asks for the download."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from moe_lab.core.errors import InputError
from moe_lab.core.sentences import shown
from moe_lab.datasets import mnist
from moe_lab_widgets.engine.knobs import LabKnob

MNIST, DOWNLOAD = "mnist", "download"
HOW = f"{MNIST!r} must be named first: mnist='a folder of its IDX files', or mnist={DOWNLOAD!r}"
"""Why a Lab does not offer MNIST by itself."""
DATA_WORDS = {"digits": "handwritten digits", "synthetic": "synthetic patches", MNIST: "MNIST"}
"""What the choices of a Lab's data are called."""
LETTERS = 36
"""Of a folder's name on its widget; the beginning of a longer one is left out."""


def with_mnist(
    knobs: Sequence[LabKnob], place: Path | str, values: Mapping[str, Any]
) -> tuple[tuple[LabKnob, ...], dict[str, Any]]:
    """Adds MNIST to the choices of the knob `source`, and begins with it unless the values name another source.

    On MNIST the knob `noise` has no effect: with noise every patch would need pixels of its own, gigabytes of them.

    Args:
      place: the folder of MNIST's IDX files, or "download" for the copy in the cache, fetched by the first run on it.
      values: what the user gave.

    Returns:
      The knobs, with one more that tells the place, and the values.

    Raises:
      FileNotFoundError: the folder does not hold MNIST.
    """
    if not isinstance(place, (str, Path)):
        raise InputError(f"mnist must be a folder of MNIST's IDX files, or {DOWNLOAD!r}: got mnist={shown(place)}")
    name = str(place)
    if name != DOWNLOAD:
        mnist.check_folder(name)
    short = name if len(name) <= LETTERS else f"…{name[-LETTERS:]}"
    where = LabKnob(
        name="mnist",
        meaning="MNIST from",
        default=name,
        choices=(name,),
        words={name: short},
        enabled_when=lambda values: False,
        effect="The folder from which images are read.",
        applies="only when the Lab is made",
    )
    changes: dict[str, dict[str, Any]] = {
        "source": {"reason": ""},
        "noise": {"enabled_when": lambda values: values["source"] != MNIST, "applies": "to all data but MNIST"},
    }
    changes["source"]["choices"] = (*(next(knob.choices or () for knob in knobs if knob.name == "source")), MNIST)
    offered = (replace(knob, **changes.get(knob.name, {})) for knob in knobs)
    return (*offered, where), {"source": MNIST, **values}


def files_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of `DigitTask` that say where MNIST is."""
    return {"download": True} if values["mnist"] == DOWNLOAD else {"root": values["mnist"]}
