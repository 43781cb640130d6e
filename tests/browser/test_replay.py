"""The page's module in Chromium, without Jupyter: recorded frames look as Agg draws them, broken ones are refused."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from moe_lab.drawing import theme
from moe_lab_widgets.drawing.trials import trials
from moe_lab_widgets.frames.module import module_source
from moe_lab_widgets.frames.writer import FrameWriter, Stream
from tests.widgets.cases import CASES
from tests.widgets.drawing.test_panels import ADDED, begun, furnish_family, moment
from tests.widgets.labs import done, making

pytestmark = pytest.mark.browser

Pixels = NDArray[np.int64]
FAR = 60
"""The difference of a colour, of 255, by which an artist can be told from what is behind it."""


@pytest.fixture(scope="module")
def page(browser: Any) -> Iterator[Any]:
    """An empty page that knows the module."""
    context = browser.new_context(viewport={"width": 1200, "height": 700})
    made = context.new_page()
    made.set_content("<body></body>")
    made.evaluate(
        """async (source) => {
          window.frames = await import(URL.createObjectURL(new Blob([source], {type: 'text/javascript'})));
          window.bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
        }""",
        module_source(),
    )
    yield made
    context.close()


def text(body: bytes) -> str:
    return base64.b64encode(body).decode()


def painted(page: Any, size: tuple[int, int]) -> NDArray[np.uint8]:
    """The newest frame of `window.film` on a canvas of the picture's own size."""
    data = page.evaluate(
        """([wide, high]) => {
          const canvas = document.createElement('canvas');
          [canvas.width, canvas.height] = [wide, high];
          frames.paint(canvas, film.at(film.last), [{x: 0, wide, high, left: 0, top: 0, scale: 1}]);
          return canvas.toDataURL('image/png').split(',')[1];
        }""",
        list(size),
    )
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB"))


def grown(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The mask with the pixels around it."""
    padded = np.pad(mask, 1)
    rows, columns = mask.shape
    return np.any([padded[r : r + rows, c : c + columns] for r in range(3) for c in range(3)], axis=0)


def check_frame(page: Any, writer: FrameWriter, number: int, apart: float = 1) -> None:
    """Draws a picture's next frame on the page's canvas, and compares it with Agg's: `apart` of 255 on average."""
    picture = writer.picture
    wanted = picture.pixels()[..., :3].astype(int)
    behind = picture.background()[: -picture.foot, :, :3].astype(int)
    content = list(picture.content())
    frames = []
    for visible in (False, True):
        for artist in content:
            artist.set_visible(visible)
        page.evaluate("(body) => film.feed(bytes(body))", text(writer.frame(number)))
        frames.append(painted(page, writer.size).astype(int))
    furniture, shown = frames
    paper = np.full_like(behind, theme.rgba(theme.PAPER)[:3])
    # Thin lines and words, whose edges two painters shade differently.
    check_alike((behind, furniture), (paper, paper), 5)
    check_alike((wanted, shown), (behind, furniture), apart)


def check_alike(drawn: tuple[Pixels, Pixels], behind: tuple[Pixels, Pixels], apart: float) -> None:
    """Compares what Agg and the page have drawn on what was there before."""
    change = [np.abs(after - before).max(-1) for after, before in zip(drawn, behind, strict=True)]
    some = (change[0] > 0) | (change[1] > 0)
    assert some.any()
    assert np.abs(drawn[0] - drawn[1])[some].mean() <= apart
    assert not ((change[0] > FAR) & ~grown(change[1] > FAR / 4)).any(), "something is missing"
    assert not ((change[1] > FAR) & ~grown(change[0] > FAR / 4)).any(), "something is too much"


@pytest.fixture(scope="module", params=CASES.values(), ids=lambda case: case.name)
def lab(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A Lab whose run has ended."""
    with making(request.param) as make:
        yield done(make())


def test_the_canvas_shows_what_agg_draws(page: Any, lab: Any) -> None:
    """At most 1 of 255 apart on average where anything is drawn; nothing that can be seen is missing or too much."""
    picture, records = lab.picture, lab.records
    writer = FrameWriter(picture)
    page.evaluate("() => { window.film = new frames.Film() }")
    for number in sorted({0, len(records) // 3, len(records) - 1}):
        picture.update(records[number])
        check_frame(page, writer, number)
    assert not writer.unsupported


def test_the_canvas_shows_the_bands_and_the_density_of_many_trials(page: Any) -> None:
    random = np.random.default_rng(3)
    x, ends = np.linspace(0, 1, 30), np.repeat((0.3, 0.8), 100) + random.normal(0, 0.04, 200)

    def draw(ax: Any, now: Any) -> None:
        for style, shift in ((theme.MODEL, 0.0), (theme.OTHER, 0.1)):
            trials(ax, x, x[:, None] * ends + shift, style, "a model")

    picture = begun(draw, lambda ax, values: ax.set(xlim=(0, 1), ylim=(0, 1)))
    picture.update(moment(2))
    writer = FrameWriter(picture)
    page.evaluate("() => { window.film = new frames.Film() }")
    check_frame(page, writer, 0, apart=2)  # each of five translucent layers rounds its colours
    assert not writer.unsupported
    picture.close()


def test_the_canvas_shows_whatever_a_panel_draws(page: Any) -> None:
    """With matplotlib's own artists too, on twins, insets and the figure: frame after frame."""
    shown: list[str] = []
    picture = begun(lambda ax, now: [ADDED[what](ax) for what in shown], furnish_family)
    writer = FrameWriter(picture)
    page.evaluate("() => { window.film = new frames.Film() }")
    for number, what in enumerate(ADDED):
        shown[:] = [what]
        picture.update(moment(2))
        check_frame(page, writer, number, apart=8)  # long thin lines
    assert not writer.unsupported
    picture.close()


def test_a_pointer_is_told_what_it_is_over(page: Any, lab: Any) -> None:
    """Over its newest point every line has its name, and its values where it lies along an axis; a table its cell."""
    writer = FrameWriter(lab.picture)
    lab.picture.update(lab.records[-1])
    page.evaluate("(body) => { window.film = new frames.Film(); film.feed(bytes(body)) }", text(writer.frame(0)))
    told = page.evaluate(
        """([wide, high]) => {
          const canvas = document.createElement('canvas');
          [canvas.width, canvas.height] = [wide, high];
          const named = frames.paint(canvas, film.at(0), [{x: 0, wide, high, left: 0, top: 0, scale: 1}]);
          return named.map((one) => {
            const [x, y, w, h] = one.box ?? [];
            const last = Array.from(one.points?.slice(-2) ?? [], (place) => place * one.unit);
            const place = one.box ? [x + w / 2, y + h / 2] : last;
            return [one.name, Boolean(one.box), frames.under([one], ...place, 10)];
          });
        }""",
        list(writer.size),
    )
    lines = [(name, words) for name, box, words in told if not box]
    names = {words.split("\n")[0] for *_, words in told} - {""}
    assert lines and len(names) >= 3
    for name, words in lines:
        first, *values = words.split("\n")
        axes = [axis for axis in (name.get("x"), name.get("y")) if axis]
        assert first == name["name"]
        for (axis, *_), value in zip(axes, values, strict=True):
            assert value.startswith(f"{axis} ") and np.isfinite(float(value.rstrip(" %").rsplit(" ", 1)[1]))
    assert all(words for name, _, words in told if "rows" in name)


def test_broken_bytes_are_refused_and_the_next_frame_is_shown(page: Any) -> None:
    """Damages bodies in every kind of place: reading or painting throws, and a sound body still works."""
    case, random = CASES["RouterAlignmentLab"], np.random.default_rng(0)
    with making(case) as make:
        lab = done(make())
        writer = FrameWriter(lab.picture)
        lab.picture.update(lab.records[0])
        first = writer.frame(0)
        lab.picture.update(lab.records[-1])
        second = writer.frame(1)
        refused = 0
        for attempt in range(60):
            damaged = bytearray(second if attempt % 2 else first)
            for place in random.integers(len(damaged), size=int(random.integers(1, 30))):
                damaged[place] = int(random.integers(256))
            if attempt % 3 == 0:
                del damaged[int(random.integers(len(damaged))) :]
            refused += page.evaluate(
                """([first, body]) => {
                  window.film = new frames.Film();
                  const canvas = document.createElement('canvas');
                  [canvas.width, canvas.height] = [1100, 448];
                  const view = {x: 0, wide: 1100, high: 448, left: 0, top: 0, scale: 1};
                  try {
                    film.feed(bytes(first)); film.feed(bytes(body));
                    frames.paint(canvas, film.at(film.last), [view]);
                    return 0;
                  } catch (error) { return 1; }
                }""",
                [text(first), text(bytes(damaged))],
            )
        assert refused >= 20, "most damage must be noticed"
        page.evaluate("([a, b]) => { window.film = new frames.Film(); film.feed(bytes(a)); film.feed(bytes(b)); }",
                      [text(first), text(second)])  # fmt: skip
        wanted = lab.picture.pixels()[..., :3].astype(int)
        assert np.abs(painted(page, writer.size).astype(int) - wanted).mean() <= 1


def test_a_stream_is_cut_into_the_bodies_that_were_packed(page: Any) -> None:
    random, stream = np.random.default_rng(1), Stream()
    bodies = [random.integers(0, 4, int(size), dtype=np.uint8).tobytes() for size in random.integers(1, 60_000, 20)]
    sizes = page.evaluate(
        """async (pieces) => {
          const heard = [];
          await new Promise((done, failed) => {
            const inflater = new frames.Inflater((body, note) => {
              heard.push([note, body.length, body.reduce((sum, one) => (31 * sum + one) % 65521, 0)]);
              if (heard.length === pieces.length) done();
            }, failed);
            pieces.forEach(([piece, length], number) => inflater.feed(bytes(piece), length, number));
          });
          return heard;
        }""",
        [[text(stream.pack(body)), len(body)] for body in bodies],
    )

    def check(body: bytes) -> int:
        total = 0
        for one in body:
            total = (31 * total + one) % 65521
        return total

    assert sizes == [[number, len(body), check(body)] for number, body in enumerate(bodies)]
