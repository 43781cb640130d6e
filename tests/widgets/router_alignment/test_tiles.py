"""Tiles fit their room for every n and k, and show which patches an expert keeps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from moe_lab.datasets import digits
from moe_lab.drawing import theme
from moe_lab.patch_routing import DigitTask
from moe_lab_widgets.drawing.tiles import Tiles, arrange, enlarge, ink_faces, pattern_faces
from moe_lab_widgets.labs.router_alignment import ink_of
from moe_lab_widgets.labs.router_alignment_runs import DIGITS

WIDTH, HEIGHT = 416, 148
"""Of the room for a class in the Lab's picture."""


@pytest.mark.parametrize("scale", [1.0, 1.5])
@pytest.mark.parametrize("experts", range(1, 9))
def test_tiles_fit_and_never_overlap(experts: int, scale: float) -> None:
    for patches in (2, 4, 7, 16, 17, 24, 32, 48, 64):
        layout = arrange(patches, experts, WIDTH, HEIGHT, scale)
        assert layout.width <= WIDTH * scale and layout.height <= HEIGHT * scale
        assert layout.cell >= (5 if patches > 32 else 10) * scale
        taken = np.zeros((layout.height, layout.width), dtype=int)
        for expert in range(experts):
            for patch in range(patches):
                left, top = layout.corner(expert, patch)
                assert left >= 0 and top >= 0
                taken[top : top + layout.cell, left : left + layout.cell] += 1
        assert taken.max() == 1 and taken.sum() == experts * patches * layout.cell**2


def test_a_kept_patch_is_framed_in_its_experts_colour_and_the_others_fade() -> None:
    roles, sides = np.array([2, 1, 0, 1]), np.array([-1, 0, 1, 1])
    layout = arrange(4, 2, 200, 100)
    faces = pattern_faces(roles, sides, layout.cell)
    tiles = Tiles(layout, faces, signal=2, side=1)
    kept = np.array([[True, False, True, False], [False, True, False, False]])
    image = tiles.pixels(kept)
    for expert, patch in np.ndindex(2, 4):
        left, top = layout.corner(expert, patch)
        cell = image[top : top + layout.cell, left : left + layout.cell]
        if kept[expert, patch]:
            assert (cell[0] == theme.rgba(theme.expert(expert).colour)).all()
            np.testing.assert_array_equal(cell[5:-5, 5:-5], faces[patch][5:-5, 5:-5])
        else:
            assert not (cell == theme.rgba(theme.expert(expert).colour)).all(-1).any()
            assert cell[..., :3].mean() > faces[patch][..., :3].mean()
    assert (image[..., 3] == 255).all()


def test_images_grow_by_whole_numbers_where_they_can() -> None:
    image = np.random.default_rng(0).random((1, 8, 8))
    grown = enlarge(image, 26)
    np.testing.assert_array_equal(grown[0, 1:25:3, 1:25:3], image[0])
    assert grown[0, 0].max() == 0 and grown[0, -1].max() == 0
    flat = enlarge(np.full((1, 8, 8), 0.4), 13)
    np.testing.assert_allclose(flat, 0.4)
    assert enlarge(image, 5).shape == (1, 5, 5)


def test_digits_come_back_as_ink_on_paper() -> None:
    task = DigitTask()
    patches = task.sample(2, trials=[0], seed=0, dtype=torch.float64).patches()[0, 0]
    ink = ink_of(DIGITS, patches)
    images = torch.from_numpy(digits.load().images).view(-1, 8, 8)
    assert all((images - one).abs().amax((1, 2)).min() < 0.3 for one in ink), "up to the norm of each image"
    faces = ink_faces(np.array([[[0.0, 1.0], [0.5, 0.0]]]), 2)
    assert (faces[0, 0, 1] == theme.rgba(theme.INK)).all() and (faces[0, 0, 0] == theme.rgba(theme.PAPER)).all()
