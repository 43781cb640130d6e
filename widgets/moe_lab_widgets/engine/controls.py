"""The widgets of a Lab: a slider for every knob, the buttons, the time slider, and the texts around the picture.

Plain ipywidgets, 7.7 and 8. Everything can be reached with the keyboard, and every description is wide enough to read.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as w

from moe_lab import theme
from moe_lab.config import Knob

OWN = "(my own settings)"
SPEEDS = {"slow": 4.0, "easy to follow": 15.0, "as fast as it trains": 0.0}
_TEXT = f"font: 15px/1.4 sans-serif; color: {theme.INK}; background: {theme.PAPER}; padding: 4px 14px; margin: 0;"

# The picture that a saved notebook keeps is the output after the live Lab, hidden while the Lab is there.
_HIDE_STILL = (
    "<style>.jp-OutputArea-child:has(.moe-lab) + .jp-OutputArea-child:has(> .jp-RenderedImage),"
    " .output_area:has(.moe-lab) + .output_area:has(.output_png) {display: none}</style>"
)


def _wide(width: int, description: int | None = None) -> dict[str, Any]:
    """Returns the layout and style of a widget: pixels for all of it, and for its description."""
    layout = {"layout": {"width": f"{width}px"}}
    return layout if description is None else {**layout, "style": {"description_width": f"{description}px"}}


def slider(knob: Knob, value: Any, width: int, label_width: int) -> w.DOMWidget:
    """Returns the widget of a knob: a drop-down for choices, a checkbox, or a slider that includes `value`."""
    common = {"description": knob.label, **_wide(width, label_width)}
    if knob.choices:
        return w.Dropdown(options=list(knob.choices), value=value, **common)
    if isinstance(knob.default, bool):
        return w.Checkbox(value=value, indent=True, **common)
    if knob.slider is None:
        raise ValueError(f"a knob on a Lab must have a slider range or choices: got {knob.name!r} with neither")
    low, high, step = knob.slider
    low, high = min(low, value), max(high, value)
    if knob.whole:
        return w.IntSlider(value=value, min=int(low), max=int(high), step=int(step), **common)
    digits = max(0, len(f"{step:.6f}".rstrip("0").partition(".")[2]))
    return w.FloatSlider(value=value, min=low, max=high, step=step, readout_format=f".{digits}f", **common)


class Controls:
    """All widgets of one Lab. They do not depend on the training; the Lab listens to them.

    Attributes:
      knobs: the widget of every knob by name, `seed` among them.
      box: everything, laid out 1100 px wide around the picture.
    """

    def __init__(
        self,
        title: str,
        knobs: Sequence[Knob],
        values: dict[str, Any],
        stories: Sequence[Any],
        picture: w.DOMWidget,
        file: str,
    ) -> None:
        self._make_knobs(knobs, values)
        self._make_buttons()
        self._make_texts()
        self._make_files(file)
        self.story = w.Dropdown(
            options=[OWN, *(story.name for story in stories)], value=OWN, description="story", **_wide(420, 45)
        )
        heading = w.HTML(f"{_HIDE_STILL}<h3 style='margin:2px 0'>{html.escape(title)}</h3>")
        self.box = w.VBox(
            [
                heading,
                *([w.HBox([self.story, self.see])] if stories else []),
                *self._knob_rows,
                w.HBox([self.play, self.step, self.reset, self.seed, self.speed, self.pin]),
                picture,
                self.message,
                self.status,
                w.HBox([self.code_shown, self.file, self.save_picture, self.save_data, self.save_page]),
                self.code,
            ],
            layout={"width": "1110px", "max_width": "100%"},
        )
        self.box.add_class("moe-lab")
        self.code_shown.observe(self._show_code, "value")

    def _make_knobs(self, knobs: Sequence[Knob], values: dict[str, Any]) -> None:
        """Makes the widgets of the knobs in rows of two, or of three where many have short names, and of the seed."""
        label = min(max((round(6.5 * len(knob.label)) + 10 for knob in knobs), default=120), 330)
        columns = 3 if label <= 190 and len(knobs) > 9 else 2  # long sliders, unless they push the picture away
        self.knobs = {knob.name: slider(knob, values[knob.name], 1085 // columns, label) for knob in knobs}
        widgets = list(self.knobs.values())
        self._knob_rows = [w.HBox(widgets[i : i + columns]) for i in range(0, len(widgets), columns)]
        self.seed = w.BoundedIntText(value=values["seed"], min=0, max=10**9, description="seed", **_wide(140, 40))

    def _make_buttons(self) -> None:
        """Makes the widgets that steer the run."""
        hold = "Hold the training, or continue it"
        keep = "Keep these curves to compare"
        self.play = w.Button(description="Pause", icon="pause", tooltip=hold, **_wide(90))
        self.step = w.Button(description="Step", icon="step-forward", tooltip="Take one record", **_wide(80))
        self.reset = w.Button(description="Reset", icon="undo", tooltip="Start again at step 0", **_wide(85))
        self.pin = w.ToggleButton(description="Pin", icon="thumb-tack", tooltip=keep, **_wide(80))
        self.speed = w.Dropdown(options=list(SPEEDS), value="easy to follow", description="speed", **_wide(225, 45))

    def _make_texts(self) -> None:
        """Makes the texts around the picture."""
        self.see = w.HTML(**_wide(650))
        self.message = w.HTML(**_wide(1100))
        self.status = w.HTML(layout={"width": "1100px", "min_height": "24px"})

    def _make_files(self, file: str) -> None:
        """Makes the widgets that show the code and write files."""
        kinds = "Writes FILE.nc, or FILE.json if the name ends so"
        self.code_shown = w.ToggleButton(description="Copy as code", icon="code", **_wide(150))
        self.code = w.HTML(layout={"width": "1100px", "display": "none"})
        self.file = w.Text(value=file, description="file", **_wide(300, 40))
        self.save_picture = w.Button(description="Save picture", icon="image", tooltip="Writes FILE.png", **_wide(140))
        self.save_data = w.Button(description="Save data", icon="save", tooltip=kinds, **_wide(125))
        plays = "Writes FILE.html: the run as a page that plays without a kernel"
        self.save_page = w.Button(description="Save page", icon="film", tooltip=plays, **_wide(125))

    def _show_code(self, change: Any) -> None:
        self.code.layout.display = "" if change["new"] else "none"

    def listen(self, **callbacks: Callable[..., None]) -> None:
        """Connects callbacks by name: knob(name), play, step, reset, pin, speed, story, picture, data, page."""
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
        self.story.observe(lambda change: callbacks["story"](change["new"]), "value")

    def show_playing(self, playing: bool) -> None:
        """Labels the play button with what it does next: hold the run or continue it."""
        self.play.description, self.play.icon = ("Pause", "pause") if playing else ("Play", "play")

    def warn(self, sentence: str) -> None:
        """Shows an error or a divergence in words; empty removes it."""
        style = _TEXT + f"border-left: 6px solid {theme.FAILURE};"
        text = f"<p role='alert' aria-live='assertive' style='{style}'><b>✗</b> {html.escape(sentence)}</p>"
        value = text if sentence else ""
        if self.message.value != value:
            self.message.value = value

    def tell(self, status: str) -> None:
        """Writes the status line."""
        style = f"font: 13px sans-serif; color: var(--jp-ui-font-color2, {theme.MUTED}); padding: 2px 14px;"
        self.status.value = f"<div role='status' aria-live='off' style='{style}'>{html.escape(status)}</div>"

    def explain(self, sentence: str) -> None:
        """Writes what to see in the chosen story."""
        self.see.value = (
            f"<p aria-live='polite' style='font: 14px/1.3 sans-serif; margin: 4px 8px'>{html.escape(sentence)}</p>"
        )

    def show_code(self, code: str) -> None:
        rows = code.count("\n") + 1
        copy = (
            "const t=this.parentNode.querySelector('textarea');t.focus();t.select();"
            "const say=(m)=>{this.nextElementSibling.textContent=m};"
            "const old=()=>say(document.execCommand('copy')?'copied':'press Ctrl+C to copy');"
            "if(navigator.clipboard){navigator.clipboard.writeText(t.value).then(()=>say('copied'),old)}else{old()}"
        )
        self.code.value = (
            "<div style='padding:4px 14px'><textarea readonly aria-label='The call that makes this run' "
            f"rows='{min(rows, 14)}' style='width:1040px;max-width:100%;font:13px monospace' "
            f"onfocus='this.select()'>{html.escape(code)}</textarea><br>"
            f'<button type="button" class="jupyter-button" onclick="{html.escape(copy)}">Copy</button>'
            "<span role='status' style='margin-left:8px'></span></div>"
        )

    def close(self) -> None:
        """Closes every widget with its layout and style, so that none stays in the kernel."""

        def close(widget: w.Widget) -> None:
            for child in getattr(widget, "children", ()):
                close(child)
            for part in (getattr(widget, "layout", None), getattr(widget, "style", None)):
                if isinstance(part, w.Widget):
                    part.close()
            widget.unobserve_all()
            widget.close()

        close(self.box)
