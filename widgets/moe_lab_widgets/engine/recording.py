"""The run of a Lab as a recording, and as a page that shows it without a kernel."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from moe_lab.core.config import require
from moe_lab.core.errors import InputError
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.drawing.picture import Picture
from moe_lab_widgets.drawing.words import unended
from moe_lab_widgets.engine.declaration import Declared
from moe_lab_widgets.engine.goal import OF_QUESTIONS
from moe_lab_widgets.engine.knobs import LabKnob
from moe_lab_widgets.engine.linking import LIVE, link_of
from moe_lab_widgets.frames.document import NOTE, document
from moe_lab_widgets.frames.recording import MOST_FRAMES, Recording, described, film
from moe_lab_widgets.frames.sketch import places_of

MOST_BYTES = 1_000_000
"""Of a page."""


def recording_of(
    lab: Declared,
    picture: Picture,
    records: Sequence[Any],
    values: Mapping[str, Any],
    shown: Any = None,
    most: int = MOST_FRAMES,
    *,
    ended: bool = True,
) -> Recording:
    """Records a run of a Lab.

    Args:
      picture: begun with `values`.
      records: of the run.
      values: every knob's, and the seed.
      shown: the record that the picture holds (see `film`).
      most: bounds the frames.
      ended: whether the run has come to its end; else its last frame says so.

    Raises:
      ValueError: there are no records yet.
    """
    if not records:
        raise InputError("there is nothing to save yet: the run has recorded nothing")

    def progress(record: Any) -> str:
        far = lab.progress(record)
        return far if ended or record is not records[-1] else unended(far)

    recorded = film(picture, records, lab.caption, progress, shown, most)
    return described(recorded, lab.title, words_of(lab.knobs, values), lab.code(dict(values)))


def words_of(knobs: Sequence[LabKnob], values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns label and value of the knobs that have an effect, and of the seed, as a Lab shows them."""
    active = [knob for knob in knobs if knob.enabled_when is None or knob.enabled_when(values)]
    return [*((knob.label, in_words(knob, values[knob.name])) for knob in active), ("seed", str(values["seed"]))]


def in_words(knob: LabKnob, value: Any) -> str:
    """Returns a knob's value with as many digits as its slider shows."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not knob.whole and knob.slider is not None:
        return f"{value:.{max(0, len(f'{knob.slider[2]:.6f}'.rstrip('0').partition('.')[2]))}f}"
    return str(value)


def page_of(
    lab: Declared,
    picture: Picture,
    records: Sequence[Any],
    values: Mapping[str, Any],
    shown: Any,
    *,
    ended: bool,
    ask: bool = False,
) -> bytes:
    """Returns a page with the run; it has fewer frames where it would be larger than `MOST_BYTES`.

    Args:
      ask: whether it opens at its start, with the question of the Lab.

    Raises:
      ValueError: as `recording_of`; or the page should ask, and there is no question, or the run has not ended.
    """
    most, note = MOST_FRAMES, _note(lab, values)
    question = _question(lab, picture, records, ended) if ask else None
    records = [one for one in records if one.begun] if ask else records  # it opens with the start of all runs
    while True:
        recording = recording_of(lab, picture, records, values, shown, most, ended=ended)
        recording = replace(recording, question=question)
        page = document(recording, note)
        if len(page) <= MOST_BYTES or most <= 2:
            return page
        most = max(2, int(len(recording.bodies) * 0.9 * MOST_BYTES / len(page)))


def _question(lab: Declared, picture: Picture, records: Sequence[Any], ended: bool) -> dict[str, Any]:
    """Returns the question of a Lab, where it may be drawn on the picture, and by what the end of a run judges it."""
    asked = lab.declaration.question
    if asked is None:
        raise InputError(f"only a Lab with a question has a page that asks: {lab.title} has none")
    require(ended, "a page that asks needs a run that has ended, by which answers are judged", ended=ended)
    now = MarkRecord(lab.seen(records[-1]))
    places = None if asked.sketch is None else places_of(asked.sketch, picture)
    return {"asked": asked.plain(), "words": OF_QUESTIONS, "places": places, "told": asked.told(now)}


def _note(lab: Declared, values: Mapping[str, Any]) -> str:
    """Returns the note below a recorded run, in HTML: where it can be trained."""
    known = {name: value for name, value in values.items() if name != "device"}
    link = link_of(type(lab), known, {}, None, getattr(lab, "own", {}))
    if link.opens != LIVE or not link.address.startswith("https:"):
        return NOTE
    return f'Recorded. Open the notebook to train, or <a href="{html.escape(link.address)}">{LIVE}</a>.'
