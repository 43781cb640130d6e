"""The first panel of the router-alignment Lab's picture: the plane in which routers turn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from moe_lab import theme
from moe_lab_widgets.drawing.lines import put
from moe_lab_widgets.drawing.picture import Name
from moe_lab_widgets.drawing.scene import Panel, Scene
from moe_lab_widgets.drawing.trials import MOST_LINES
from moe_lab_widgets.router_alignment.record import Frame


class Plane(Panel):
    """Every router's cosines with o1 and o2: its position, its path, and the positions that are possible."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (0, 312))
        note = "cosine between each router w and\nthe two patches that decide the class"
        theme.header(scene.figure, 14, 1, "Where routers point", note)
        self.axes = axes = theme.axes(scene.figure, 58, 96, 244, 257, xlim=(-1.12, 1.2), ylim=(-1.17, 1.27))
        axes.set_aspect("equal", anchor="NW")
        axes.set_xticks([-1, 0, 1])
        axes.set_yticks([-1, 0, 1])
        for draw in (axes.axhline, axes.axvline):
            draw(0, color=theme.RULE, linewidth=0.8, zorder=1.5)
        dots: dict[str, Any] = {"markersize": 2.8, "alpha": 0.75, "markeredgewidth": 0, "zorder": 3}
        self.others = scene.live(axes.plot([], [], "o", color=theme.REFERENCE, **dots)[0])
        scene.name(self.others, partial(self._named, "a router of another trial"))
        self._trails: list[Line2D] = []
        self._heads: list[tuple[Line2D, Line2D]] = []
        self.trails: list[Line2D] = []
        self.heads: list[tuple[Line2D, Line2D]] = []

    def set(self, overlap: float, names: Sequence[str], trials: int, shown: int, experts: int) -> None:
        """Draws the ellipse of unit vectors, tinted by the nearer o, and the experts' trails and heads."""
        self._prepare_trails(experts)
        if not self.renew(round(overlap, 4), names, trials):
            return
        axes, angle = self.axes, float(np.arccos(np.clip(overlap, -1, 1)))
        turn = np.linspace(angle / 2 - np.pi, angle / 2, 60)
        for side, phi in enumerate((turn, turn + np.pi)):
            (half,) = axes.fill(np.cos(phi), np.cos(phi - angle), color=theme.CLASSES_TINT[side], linewidth=0, zorder=1)
            self.fix(half)
        phi = np.linspace(0, 2 * np.pi, 160)
        self.fix(axes.plot(np.cos(phi), np.cos(phi - angle), color=theme.REFERENCE, linewidth=1, zorder=2)[0])
        apart = 0.15 if overlap > 0.5 else 0  # near twins: their names part, so that heads hide neither
        places = (("left", "center", 1.09, overlap - apart), ("center", "bottom", overlap - 1.4 * apart, 1.09))
        for side, (ha, va, x, y) in enumerate(places):
            colour = theme.CLASSES[side]
            star: dict[str, Any] = {"markersize": 15, "markeredgecolor": "white", "zorder": 2.5, "clip_on": False}
            self.fix(axes.plot(*((1, overlap), (overlap, 1))[side], "*", color=colour, **star)[0])
            name: dict[str, Any] = {"size": theme.TITLE_SIZE, "weight": "bold", "zorder": 2.5, "ha": ha, "va": va}
            self.fix(axes.text(x, y, theme.CLASS_NAMES[side], color=colour, **name))
            turned = {"x": 22, "y": 224, "rotation": 90} if side else {"x": 180, "y": 388}
            words = f"cos(w, {theme.CLASS_NAMES[side]})   → looks for {names[side]}"
            self.write(words=words, ha="center", size=theme.TEXT_SIZE, color=colour, **turned)
        many = f"{MOST_LINES} of " * (trials - 1 > MOST_LINES)
        others = f"trial {shown + 1}; grey dots: {many}{trials - 1:,} other trial{'s' * (trials > 2)}"
        self.write(180, 412, others if trials > 1 else "one trial", ha="center")

    def _prepare_trails(self, experts: int) -> None:
        """Makes a trail and a numbered head for each expert; those of fewer experts are kept and hidden."""
        style: dict[str, Any] = {"markersize": 4.5, "marker": "o", "markevery": [-1], "solid_joinstyle": "round"}
        for s in range(len(self._trails), experts):
            (trail,) = self.axes.plot([], [], color=theme.expert(s).colour, zorder=4, **style)
            head = theme.expert_head(self.axes, s)
            self._trails.append(self.scene.live(trail))
            self.scene.name(trail, partial(self._named, f"the way of expert {s + 1}'s router"))
            self._heads.append(head)
            for part in head:
                part.set_clip_on(False)
                self.scene.name(self.scene.live(part), {"name": f"the router of expert {s + 1}"})
        for s, (trail, head) in enumerate(zip(self._trails, self._heads, strict=True)):
            for part in (trail, *head):
                part.set_visible(s < experts)
            trail.set_linewidth(2.4 if experts <= 4 else 1.6)
            for part, size in zip(head, (14, 6.7) if experts <= 4 else (12, 5.8), strict=True):
                part.set_markersize(size)
        self.trails, self.heads = self._trails[:experts], self._heads[:experts]

    def _named(self, words: str) -> Name:
        x, y = (self.scene.along(f"cos(w, {theme.CLASS_NAMES[side]})", self.axes, "xy"[side]) for side in range(2))
        return {"name": words, "x": x, "y": y}

    def update(self, record: Frame, shown: int) -> None:
        paths = record.alignment()
        rest = np.delete(paths[-1], shown, axis=0)[:MOST_LINES].reshape(-1, 2)
        put(self.others, rest[:, 0], rest[:, 1])
        own = paths[:, shown]
        own = own[np.isfinite(own).all((1, 2))]
        if len(self.trails) > 4:
            own = own[-25:]
        here = own[-1] if len(own) else np.full((len(self.trails), 2), np.nan)
        heads = theme.push_apart(here, 0.2 if len(self.trails) <= 4 else 0.17, rounds=20)
        for s, (trail, head) in enumerate(zip(self.trails, self.heads, strict=True)):
            put(trail, own[:, s, 0], own[:, s, 1])
            for part in head:
                put(part, heads[s : s + 1, 0], heads[s : s + 1, 1])
