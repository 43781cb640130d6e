"""`predict`: a question with radio buttons, whose answer the kernel keeps until it is compared with what was seen."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import ipywidgets as w
from IPython.display import display

from moe_lab.core.arguments import checked
from moe_lab.exercises.prediction import Comparison, Prediction
from moe_lab_widgets.engine.callbacks import heard_at_once
from moe_lab_widgets.engine.controls import close_all, no_null
from moe_lab_widgets.engine.threads import headless


class PredictionBox(Prediction):
    """A `Prediction` with radio buttons, which Tab reaches and Space chooses; a list where there is no page.

    What was seen is shown below the buttons too. An answer that has been compared is kept and the buttons are greyed: a
    change would be no prediction, and the verdict would be on another answer.

    Attributes:
      box: the widgets of the latest cell that showed it; None before that.
    """

    box: w.VBox | None = None
    _found: Comparison | None = None

    def _ipython_display_(self) -> None:
        plain = {"text/plain": repr(self), "text/html": self._repr_html_()}
        if headless():
            display(plain, raw=True)
            return
        if self.box is not None:
            close_all(self.box)
        self.box = self._made()
        view = {"version_major": 2, "version_minor": 0, "model_id": self.box.model_id}
        display({**plain, "application/vnd.jupyter.widget-view+json": view}, raw=True)

    def seen(self, outcome: str | float, why: str = "") -> Comparison:
        """Compares the answer with what was seen; see `Prediction.seen`."""
        self._found = super().seen(outcome, why)
        if self.box is not None:
            _, radios, said = self.box.children
            radios.disabled = self._compared()
            said.value = _said(self._state() if self._compared() else self._found.sentence)
        return self._found

    def _made(self) -> w.VBox:
        options = [(f"{letter}) {text}", letter) for letter, text in self.options.items()]
        place = list(self.options).index(self.chosen) if self.chosen else None
        layout = {"width": "auto", "height": "auto"}
        radios = w.RadioButtons(options=options, index=place, disabled=self._compared(), layout=layout)
        said = w.HTML(_said(self._state()))

        def keep(change: Mapping[str, Any]) -> None:
            if change["new"] is not None:
                self.choose(change["new"])
            said.value = _said(self._state())

        radios.observe(keep, "value")
        made = w.VBox([w.HTML(f"<b>Your prediction.</b> {html.escape(self.question)}"), radios, said])
        no_null(made)
        heard_at_once(made)
        return made

    def _compared(self) -> bool:
        """Whether there is a verdict on an answer."""
        return self._found is not None and bool(self._found.chosen)

    def _state(self) -> str:
        if self._found is not None and self._compared():
            return f"{self._found.sentence} (To predict anew, run this cell again.)"
        if self.chosen:
            return f"Saved: {self.chosen}. Run the next cell."
        return "Pick one, or skip it: later cells run either way."


def _said(words: str) -> str:
    """What stands below the buttons, read aloud by screen readers when it changes."""
    return f"<span aria-live='polite'>{html.escape(words)}</span>"


@checked
def predict(question: str, options: Sequence[str] | Mapping[str, float], answer: str | None = None) -> PredictionBox:
    """Asks for a prediction; see `moe_lab.exercises.predict`. `answer="b"` chooses without the buttons."""
    return PredictionBox(question, options, answer)
