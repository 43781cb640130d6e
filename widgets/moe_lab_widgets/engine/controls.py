"""The widgets of a Lab: a slider for every knob, the buttons, the time slider, and the texts around the picture.

Plain ipywidgets, 7.7 and 8, laid out by lab.css. Everything can be reached with the keyboard, the buttons first.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import ipywidgets as w

from moe_lab.core.knobs import Knob
from moe_lab.drawing import theme
from moe_lab_widgets.engine.callbacks import alone
from moe_lab_widgets.engine.goal import COUNT, MOST_PREDICTIONS, RIGHT
from moe_lab_widgets.engine.knobs import TOOLTIPS, LabKnob, explain, readout_format, stretched

STYLE = Path(__file__).with_name("lab.css").read_text(encoding="utf-8")
OWN = "(my own settings)"
FASTEST = "as fast as it trains"
SPEEDS = {"slow": 4.0, "easy to follow": 15.0, FASTEST: 0.0}
HOLD, GO_ON = "Hold what moves, at this step", "Go on training; after the end, show the run again"
_SENTENCE = f"color: {theme.INK}; background: {theme.PAPER}; border-left: 6px solid {theme.FAILURE};"
"""Colours of text that stands on the paper of the picture, in a dark theme too."""


def slider(knob: Knob, value: Any) -> w.DOMWidget:
    """Returns the widget of a knob: a drop-down for choices, a checkbox, or a slider that includes `value`."""
    common = {"description": knob.label, "layout": {"width": "auto", "height": "auto"}}
    if knob.choices:
        words: Mapping[Any, str] = getattr(knob, "words", {})
        options = [(words.get(one, one), one) for one in knob.choices] if words else list(knob.choices)
        return w.Dropdown(options=options, value=value, **common)
    if isinstance(knob.default, bool):
        return w.Checkbox(value=value, indent=False, **common)
    if knob.slider is None:
        raise ValueError(f"a knob on a Lab must have a slider range or choices: got {knob.name!r} with neither")
    low, high, step = stretched(knob.slider, value)
    if knob.whole:
        return w.IntSlider(value=value, min=int(low), max=int(high), step=int(step), **common)
    return w.FloatSlider(value=value, min=low, max=high, step=step, readout_format=readout_format(step), **common)


def no_null(widget: w.Widget) -> None:
    """Empties the tooltip of a widget that has none, and of all such in it: pages would write "null" for None."""
    if hasattr(widget, "description") and all(
        getattr(widget, name) is None for name in TOOLTIPS if widget.has_trait(name)
    ):
        explain(widget, "")
    for child in getattr(widget, "children", ()):
        no_null(child)


def filled(root: w.Box, children: Sequence[w.DOMWidget], css_class: str) -> w.Box:
    """Puts widgets into a box that lab.css lays out, and returns the box."""
    root.children = list(children)
    root.add_class(css_class)
    return root


def box(children: Sequence[w.DOMWidget], css_class: str) -> w.Box:
    """Returns a box that lab.css lays out."""
    return filled(w.Box(), children, css_class)


def close_all(widget: w.Widget) -> None:
    """Closes a widget and all in it, with their layouts and styles, so that none stays in the kernel."""
    for child in getattr(widget, "children", ()):
        close_all(child)
    for part in (getattr(widget, "layout", None), getattr(widget, "style", None)):
        if isinstance(part, w.Widget):
            part.close()
    widget.unobserve_all()
    w.Widget.close(widget)  # a Lab, which is its own box, closes all of itself by its `close`


class Controls:
    """All widgets of one Lab. They do not depend on the training; the Lab listens to them.

    What is written last must reach the page last, whichever thread writes it: hence `alone`.

    Args:
      root: the box that takes everything: the Lab itself.
      picture: shows the picture with its caption.
      projector: whether everything is half as large again.

    Attributes:
      knobs: the widget of every knob by name, `seed` among them.
      box: everything.
    """

    def __init__(
        self,
        root: w.Box,
        title: str,
        knobs: Sequence[LabKnob],
        values: dict[str, Any],
        goals: Sequence[Any],
        stories: Sequence[Any],
        picture: w.DOMWidget,
        projector: bool = False,
    ) -> None:
        self._tips: dict[str, str] = {}
        self._tell_tips: Callable[[dict[str, str]], None] = lambda tips: None
        self._make_knobs(knobs, values)
        self._make_buttons()
        self._make_texts()
        self._make_files("".join(letter if letter.isalnum() else "_" for letter in title.lower()))
        self._title = title
        self.heading = w.HTML(f"<h3>{html.escape(title)}</h3>")
        self._make_menu(goals, stories)
        for widget, needed in ((self.menu, [*goals, *stories]), (self.more, self._rest.children)):
            widget.layout.display = "" if needed else "none"
        self.box = filled(
            root,
            [
                w.HTML(f"<style>{STYLE}</style>", layout={"display": "none"}),
                box(
                    [
                        box([self.heading, self.menu, self.seed, self.pin, self.more], "moe-lab-bar"),
                        self._asked,
                        self._main,
                    ],
                    "moe-lab-head",
                ),
                self._rest,
                box([self._moves, picture, self.speed, self.message, self.see], "moe-lab-stage"),
                box(
                    [self.status, self.code_shown, self.file, self.save_picture, self.save_data, self.save_page],
                    "moe-lab-bar",
                ),
                self.code,
            ],
            "moe-lab",
        )
        if projector:
            self.box.add_class("moe-lab-projector")
        no_null(self.box)
        self.code_shown.observe(self._show_code, "value")
        self.more.observe(self._show_more, "value")

    def _make_menu(self, goals: Sequence[Any], stories: Sequence[Any]) -> None:
        """Makes the menu of goals and stories, and the line in which a goal is told and asked about."""
        self._stories = [(story.name, story.name) for story in stories]
        options = self._options([goal.name for goal in goals], set())
        self.menu = w.Dropdown(
            options=options, value=OWN, description="goal" if goals else "story", layout={"width": "auto"}
        )
        self.menu.add_class("moe-lab-grows")
        what = "Something to bring about with the sliders, or settings" if goals else "Settings"
        self._tip(self.menu, f"{what} that show something, and what to see there")
        self.goal = w.HTML()
        self.goal.add_class("moe-lab-grows")
        about = "An answer to the question beside it"
        self.answers = [w.Button(layout={"display": "none"}, tooltip=about) for _ in range(MOST_PREDICTIONS + 2)]
        self._asked = box([self.goal, *self.answers], "moe-lab-bar")
        self._asked.add_class("moe-lab-goal")
        self._asked.layout.display = "none"

    def _options(self, goals: Sequence[str], done: Collection[str]) -> list[Any]:
        told = [(f"{RIGHT if name in done else f'{place}.'} {name}", name) for place, name in enumerate(goals, start=1)]
        return [(OWN, OWN), *told, *self._stories]

    def _make_knobs(self, knobs: Sequence[LabKnob], values: dict[str, Any]) -> None:
        """Makes the widgets of the knobs and of the seed: the main ones, and the rest, hidden until asked for."""
        self.knobs = {knob.name: slider(knob, values[knob.name]) for knob in knobs}
        self.seed = w.BoundedIntText(
            value=values["seed"], min=0, max=10**9, description="seed", layout={"width": "auto"}
        )
        self.seed.add_class("moe-lab-seed")
        self._tip(
            self.seed, "The random numbers: another seed is another draw of data and weights, the same experiment"
        )
        for knob in knobs:
            widget = self.knobs[knob.name]
            widget.add_class("moe-lab-knob")
            widget.observe(self._tip_changed, [name for name in TOOLTIPS if widget.has_trait(name)])
        every = [self.knobs[knob.name] for knob in knobs if knob.name != "device"]
        main = [self.knobs[knob.name] for knob in knobs if knob.main] or every
        rest = [widget for widget in self.knobs.values() if widget not in main]
        self._main = box(main, "moe-lab-knobs")
        self._rest = box(rest, "moe-lab-knobs")
        self._rest.add_class("moe-lab-more")
        self._rest.layout.display = "none"

    def _make_buttons(self) -> None:
        """Makes the widgets that steer the run."""
        self.play = w.Button(description="Pause", icon="pause")
        self.step = w.Button(description="Step", icon="step-forward", tooltip="Train for one step and stop")
        self.reset = w.Button(
            description="Reset", icon="undo", tooltip="Go back to step 0; a Lab that is held stays so"
        )
        self._moves = box([self.play, self.step, self.reset], "moe-lab-bar")
        self.pin = w.ToggleButton(
            description="Pin", icon="thumb-tack", tooltip="Keep these curves, dotted, to compare with the next run"
        )
        self.more = w.ToggleButton(
            description="More settings", icon="sliders", tooltip="Show the settings that are less often moved"
        )
        self.speed = w.Dropdown(
            options=list(SPEEDS), value="easy to follow", description="speed", layout={"width": "auto"}
        )
        self._tip(self.speed, f'How fast it trains. A run that starts at "{FASTEST}" also measures less often')

    def _make_texts(self) -> None:
        """Makes the texts around the picture."""
        self.see = w.HTML()
        self.message = w.HTML()
        self.status = w.HTML()
        self.status.add_class("moe-lab-grows")

    def _make_files(self, file: str) -> None:
        """Makes the widgets that show the code and write files."""
        kinds = "Writes FILE.nc, or FILE.json if the name ends so: everything that the run recorded"
        self.code_shown = w.ToggleButton(
            description="Copy as code", icon="code", tooltip="Show the Python call that makes this run without a Lab"
        )
        self.code = w.HTML(layout={"display": "none"})
        self.file = w.Text(value=file, description="file", layout={"width": "auto"})
        self._tip(self.file, "FILE: the name of what the buttons beside it write, in the notebook's folder")
        pixels = "Writes FILE.png: the picture on show with its caption"
        self.save_picture = w.Button(description="Save picture", icon="image", tooltip=pixels)
        self.save_data = w.Button(description="Save data", icon="save", tooltip=kinds)
        plays = "Writes FILE.html: the run as a page that plays without a kernel"
        self.save_page = w.Button(description="Save page", icon="film", tooltip=plays)

    def _show_code(self, change: Any) -> None:
        self.code.layout.display = "" if change["new"] else "none"

    def _show_more(self, change: Any) -> None:
        self._rest.layout.display = "" if change["new"] else "none"

    def _tip(self, widget: w.Widget, words: str) -> None:
        explain(widget, words)
        self._tip_changed({"owner": widget, "new": words})

    def _tip_changed(self, change: Any) -> None:
        self._tips[change["owner"].description] = change["new"]
        self._tell_tips(dict(self._tips))

    def tell_tips(self, tell: Callable[[dict[str, str]], None]) -> None:
        """Passes on the tooltips by description, now and when they change: ipywidgets 8 shows none over a drop-down."""
        self._tell_tips = tell
        tell(dict(self._tips))

    def listen(self, **callbacks: Callable[..., None]) -> None:
        """Connects callbacks: knob(name), play, step, reset, pin, speed, chosen(name), answer(number), and of files."""
        for name, widget in {**self.knobs, "seed": self.seed}.items():
            widget.observe(lambda _, name=name: callbacks["knob"](name), "value")
        self.play.on_click(lambda _: callbacks["play"]())
        self.step.on_click(lambda _: callbacks["step"]())
        self.reset.on_click(lambda _: callbacks["reset"]())
        self.save_picture.on_click(lambda _: callbacks["picture"]())
        self.save_data.on_click(lambda _: callbacks["data"]())
        self.save_page.on_click(lambda _: callbacks["page"]())
        self.pin.observe(lambda change: callbacks["pin"](change["new"]), "value")
        self.speed.observe(lambda change: callbacks["speed"](change["new"]), "value")
        self.menu.observe(lambda change: callbacks["chosen"](change["new"]), "value")
        for number, button in enumerate(self.answers):
            button.on_click(lambda _, number=number: callbacks["answer"](number))

    @alone
    def show_playing(self, playing: bool) -> None:
        """Labels the play button with what it does next."""
        self.play.description, self.play.icon = ("Pause", "pause") if playing else ("Play", "play")
        self.play.tooltip = HOLD if playing else GO_ON

    @alone
    def warn(self, sentence: str) -> None:
        """Shows an error or a divergence in words; empty removes it."""
        text = f"<p role='alert' aria-live='assertive' style='{_SENTENCE}'><b>✗</b> {html.escape(sentence)}</p>"
        value = text if sentence else ""
        if self.message.value != value:
            self.message.value = value

    @alone
    def tell(self, status: str) -> None:
        """Writes the status line."""
        style = f"color: var(--jp-ui-font-color2, {theme.MUTED}); padding: 2px 14px;"
        self.status.value = f"<div role='status' aria-live='off' style='{style}'>{html.escape(status)}</div>"

    @alone
    def explain(self, sentence: str) -> None:
        """Writes what to see in the chosen story, or why a slider went elsewhere; empty removes it."""
        text = f"<p aria-live='polite'>{html.escape(sentence)}</p>" if sentence else ""
        if self.see.value != text:
            self.see.value = text

    @alone
    def ask(self, words: str, answers: Sequence[str], refused: Collection[str] = ()) -> None:
        """Writes a question, or what is said of a goal, with buttons for answers; empty removes the line.

        Args:
          refused: answers that were given, and are wrong.
        """
        text = f"<p aria-live='polite'>{html.escape(words)}</p>" if words else ""
        if self.goal.value != text:
            self.goal.value = text
        self._asked.layout.display = "" if words else "none"
        for number, button in enumerate(self.answers):
            there = number < len(answers)
            button.layout.display = "" if there else "none"
            if there:
                button.description, button.disabled = answers[number], answers[number] in refused

    @alone
    def tell_goals(self, goals: Sequence[str], done: Collection[str]) -> None:
        """Ticks the goals that are done in the menu, and counts them beside the title."""
        chosen = self.menu.value
        self.menu.options = self._options(goals, done)
        self.menu.value = chosen
        count = f" <small>{COUNT.format(done=len(done), all=len(goals))}</small>"
        self.heading.value = f"<h3>{html.escape(self._title)}{count}</h3>"

    @alone
    def mark(self, *, stale: bool, refused: bool = False) -> None:
        """Dims the picture while it is not that of the settings: at once where there will be none."""
        for css_class, wanted in (("moe-lab-stale", stale), ("moe-lab-refused", refused)):
            if wanted != (css_class in self.box._dom_classes):
                (self.box.add_class if wanted else self.box.remove_class)(css_class)

    @alone
    def show_code(self, code: str) -> None:
        rows = code.count("\n") + 1
        copy = (
            "const t=this.parentNode.querySelector('textarea');t.focus();t.select();"
            "const say=(m)=>{this.nextElementSibling.textContent=m};"
            "const old=()=>say(document.execCommand('copy')?'copied':'press Ctrl+C to copy');"
            "if(navigator.clipboard){navigator.clipboard.writeText(t.value).then(()=>say('copied'),old)}else{old()}"
        )
        style = "width: 100%; box-sizing: border-box; font: var(--moe-lab-size) monospace"
        self.code.value = (
            "<div style='padding:4px 14px'><textarea readonly aria-label='The call that makes this run' "
            f"title='The run without a Lab' rows='{min(rows, 14)}' style='{style}' "
            f"onfocus='this.select()'>{html.escape(code)}</textarea><br>"
            f'<button type="button" class="jupyter-button" title="Copy it" onclick="{html.escape(copy)}">Copy</button>'
            "<span role='status' style='margin-left:8px'></span></div>"
        )

    @alone
    def close(self) -> None:
        """Closes every widget."""
        close_all(self.box)
