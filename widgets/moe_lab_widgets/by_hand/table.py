"""`RoutingTable`: edit scores, and see at once where three kinds of routing send the patches."""

from __future__ import annotations

import html
from collections.abc import Callable
from itertools import chain
from typing import Any

import ipywidgets as w
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from numpy.typing import ArrayLike, NDArray

from moe_lab.core.config import require
from moe_lab.core.errors import InputError
from moe_lab.core.sentences import brief
from moe_lab.drawing import theme
from moe_lab.drawing.routing_plots import gate_table
from moe_lab_widgets.by_hand.fates import OWN, Fate, as_html, badge, fates, in_words
from moe_lab_widgets.drawing.picture import drawing_lock, encode
from moe_lab_widgets.engine.callbacks import alone, heard_at_once
from moe_lab_widgets.engine.controls import STYLE, box, close_all, filled, no_null
from moe_lab_widgets.engine.knobs import explain
from moe_lab_widgets.engine.output import NotebookOutput
from moe_lab_widgets.engine.threads import headless
from moe_lab_widgets.frames.screen import TEXT, Tended
from moe_lab_widgets.playground.texts import BOTH

MOST_EXPERTS, MOST_PATCHES, HIGHEST = 4, 6, 9
LIBRARY, MINE = "the library", "my function"
"""Whose functions route."""


class RoutingTable(w.VBox):
    """A table of exp(score) whose cells can be edited, and its routing by expert choice, token choice and switch.

    Args:
      powers: exp(score), (experts, patches): two to four experts, two to six patches, whole numbers from 1 to 9.
      mine: functions of yours that solve the exercises of notebook 01 (`top_l`, `token_choice`, `switch`): a menu then
        lets them route in place of the library.

    Raises:
      ValueError: powers is no such table, or mine are no such functions.
    """

    title = "Routing by hand"
    page: Tended | None = None
    """Looks after the controls in the page; None until the table is made."""

    def __init__(self, powers: ArrayLike, *mine: Callable[..., Any]) -> None:
        table = np.asarray(powers, dtype=float)
        require(table.ndim == 2, "powers must have the axes (experts, patches)", shape=table.shape)
        experts, patches = table.shape
        rule = f"powers must have two to {MOST_EXPERTS} experts (rows) and two to {MOST_PATCHES} patches (columns)"
        require(2 <= experts <= MOST_EXPERTS and 2 <= patches <= MOST_PATCHES, rule, shape=table.shape)
        whole = np.isfinite(table).all() and (table == table.round()).all() and (table >= 1).all()
        rule = f"powers must be whole numbers from 1 to {HIGHEST}"
        require(bool(whole and (table <= HIGHEST).all()), rule, powers=table.tolist())
        self.mine = {getattr(one, "__name__", brief(repr(one))): one for one in mine}
        rule = f"functions of your own must be called as their exercises are: {', '.join(OWN)}"
        require(set(self.mine) <= set(OWN) and all(map(callable, mine)), rule, names=list(self.mine))
        fates(table, 2, 1, 0.0, 0, self.mine)  # says at once what is wrong with them
        super().__init__()
        self._start = table
        self._make_widgets(experts, patches)
        no_null(self.box)
        heard_at_once(self.box)
        self._whole = [one.description for one in (self.kept, self.picked, self.seed, *chain(*self.entries))]
        self.page = Tended(title=self.title, whole=self._whole)
        self.page.on_msg(self._page_said)
        heard_at_once(self.page)
        self._update()
        self.output = NotebookOutput(
            kind=type(self).__name__,
            title=self.title,
            headless=headless(),
            model_id=self.box.model_id,
            picture=lambda: (self.png(), self.sentence),
            close=self.close,
        )

    # ---- reading ----

    @property
    def powers(self) -> NDArray[np.float64]:
        """exp(score), (experts, patches), as the cells have it."""
        return np.array([[one.value for one in row] for row in self.entries], dtype=float)

    @property
    def fates(self) -> tuple[Fate, ...]:
        """Expert choice, token choice and switch with the present settings."""
        own = self.mine if self.routed_by is not None and self.routed_by.value == MINE else {}
        return fates(self.powers, self.kept.value, self.picked.value, self.noise.value, self.seed.value, own)

    @property
    def sentence(self) -> str:
        """What becomes of patches and experts, in words."""
        return in_words(self.fates)

    def png(self) -> bytes:
        """Returns the three tables as a picture."""
        with drawing_lock:
            figure = theme.figure(1100, 300)
            for number, fate in enumerate(self.fates):
                gate_table(figure.add_axes((0.01 + number / 3, 0.04, 0.32, 0.9)), fate.gates, fate.name)
            canvas = FigureCanvasAgg(figure)
            canvas.draw()
            return encode(np.asarray(canvas.buffer_rgba()), level=9)

    # ---- doing ----

    @alone
    def reset(self) -> None:
        """Puts the entries back to those that were given."""
        for row, numbers in zip(self.entries, self._start, strict=True):
            for one, number in zip(row, numbers, strict=True):
                one.value = int(number)

    def close(self) -> None:
        """Frees the widgets. One that was refused has none, and closes itself all the same."""
        if self.page is not None:
            close_all(self.page)
            close_all(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.powers.astype(int).tolist()})"

    def _ipython_display_(self) -> None:
        self.output.show()

    # ---- helpers ----

    def _make_widgets(self, experts: int, patches: int) -> None:
        wide = {"width": "auto", "height": "auto"}
        self.entries = [
            [_cell(int(number), f"expert {s}, patch {j}") for j, number in enumerate(row, 1)]
            for s, row in enumerate(self._start, 1)
        ]
        self.kept = w.BoundedIntText(2, min=1, max=patches, description="l, patches per expert", layout=wide)
        explain(self.kept, "How many patches each expert keeps where experts choose, those of its highest scores")
        self.picked = w.BoundedIntText(1, min=1, max=experts, description="experts per patch", layout=wide)
        explain(self.picked, "How many experts each patch goes to where patches choose, those of its highest scores")
        self.noise = w.BoundedFloatText(0.0, min=0.0, max=3.0, step=0.25, description="noise of switch", layout=wide)
        explain(self.noise, "How strongly chance moves the scores before switch picks one expert for each patch")
        self.seed = w.BoundedIntText(0, min=0, max=10**6, description="seed of the noise", layout=wide)
        explain(self.seed, "Where chance begins: another seed is another noise")
        settings = [self.kept, self.picked, self.noise, self.seed]
        self.routed_by = None
        if self.mine:
            self.routed_by = w.Dropdown(options=(MINE, LIBRARY), description="routed by", layout=wide)
            explain(self.routed_by, "Whose functions route: those that you gave, or the library's")
            settings.append(self.routed_by)
        for one in settings:
            one.add_class("moe-lab-knob")
        for one in (*settings, *(cell for row in self.entries for cell in row)):
            one.observe(lambda _: self._update(), "value")
        back = w.Button(
            description="↺ the first table", tooltip="Put the scores back that it began with", layout={"width": "auto"}
        )
        back.on_click(lambda _: self.reset())
        heads = [w.HTML(), *(w.HTML(f"patch {j}") for j in range(1, patches + 1))]
        rows = [part for s, row in enumerate(self.entries) for part in (w.HTML(badge(s)), *row)]
        table = box([*heads, *rows], "moe-lab-table")
        table.layout.grid_template_columns = f"auto repeat({patches}, minmax(48px, 64px))"
        self.tables = [w.HTML() for _ in range(3)]
        shown = box(self.tables, "moe-lab-tables")
        self.words = w.HTML()
        self.words.add_class("moe-lab-caption")
        self.box = filled(
            self,
            [
                w.HTML(f"<style>{STYLE}</style>", layout={"display": "none"}),
                box([w.HTML(f"<h3>{self.title}: exp(score)</h3>"), back], "moe-lab-bar"),
                box([table, box(settings, "moe-lab-knobs")], "moe-lab-hand"),
                shown,
                self.words,
            ],
            "moe-lab",
        )

    def _page_said(self, _: object, message: dict[str, Any], buffers: object) -> None:
        """Takes what a page says: that it can look after the controls, or that a text is no number."""
        if message["kind"] == "hello" and self.page not in self.box.children:
            self.box.children = [*self.box.children, self.page]
        elif message["kind"] == "unread":
            self._refuse(str(message["label"]), str(message["text"]), message.get("back"))

    def _refuse(self, label: str, text: str, back: float | None) -> None:
        """Puts a number back to what it was before a text was typed, whose first digit may have been heard."""
        places = (self.kept, self.picked, self.noise, self.seed, *chain(*self.entries))
        place = next(one for one in places if one.description == label)
        if back is not None:
            place.value = type(place.value)(back)
        about = {"title": label, "value": place.value, "kind": BOTH["WHOLE" if label in self._whole else "NUMBER"]}
        self._say(f"{BOTH['UNREAD'].format(**about, text=brief(text))}. {self.sentence}")

    @alone
    def _update(self) -> None:
        try:
            routed = self.fates
        except InputError as error:
            self._say(f"{error}.")
            return
        for shown, fate in zip(self.tables, routed, strict=True):
            shown.value = as_html(fate)
        self._say(in_words(routed))

    @alone
    def _say(self, words: str) -> None:
        self.words.value = f"<p aria-live='polite' style='{TEXT}'>{html.escape(words)}</p>"


def _cell(number: int, name: str) -> w.BoundedIntText:
    """A cell of the table, into which a number is typed; its name is for those who hear it."""
    cell = w.BoundedIntText(
        number, min=1, max=HIGHEST, description=name, continuous_update=True, layout={"width": "auto"}
    )
    cell.add_class("moe-lab-cell")
    explain(cell, f"exp(score) of {name}: a whole number from 1 to {HIGHEST}")
    return cell
