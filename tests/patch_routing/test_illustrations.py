"""Figures 1 to 3: what the Dataset holds is the model, and what is drawn is the Dataset."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xarray as xr
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import same_color
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from moe_lab.drawing import theme
from moe_lab.patch_routing import DigitTask, figures, plots
from moe_lab.patch_routing.stepwise import BY_EXPERTS, chosen, softmax_gates

SHORT = {"samples": 40, "steps": 60}


@pytest.fixture(scope="module")
def data() -> xr.Dataset:
    return figures.illustrations(seed=1)


@pytest.fixture(scope="module")
def page(data: xr.Dataset) -> Figure:
    drawn = plots.picture(data)
    FigureCanvasAgg(drawn).draw()
    return drawn


def marks(page: Figure, number: int, axes: int) -> list[tuple[float, float]]:
    """Where an expert's number stands on one of the Axes."""
    lines = [line for line in page.axes[axes].get_lines() if line.get_marker() == f"${number}$"]
    return [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in lines]


def test_it_has_the_sizes_of_the_papers_drawings(data: xr.Dataset) -> None:
    assert dict(data["gate"].sizes) == {"class": 2, "expert": 3, "patch": 16}
    assert data.sizes["neuron"] == 6 and data["expert_of"].values.tolist() == [1, 1, 2, 2, 3, 3]
    assert ((data["gate"] > 0).sum("patch") == 4).all()
    assert data.attrs["figure"] == "figures 1 to 3" and data["score"].attrs["long_name"]


def test_gates_are_the_softmax_of_the_largest_scores(data: xr.Dataset) -> None:
    scores = torch.as_tensor(data["score"].values)
    gates = softmax_gates(scores, chosen(scores, 4, BY_EXPERTS), BY_EXPERTS)
    np.testing.assert_allclose(data["gate"], gates, rtol=1e-9)


def test_the_output_is_the_sum_over_experts_neurons_and_patches(data: xr.Dataset) -> None:
    for own, expected in zip((data.isel({"class": number}) for number in (0, 1)), data["output"].values, strict=True):
        total = 0.0
        for neuron, expert in enumerate(own["expert_of"].values):
            for patch in range(16):
                gate = float(own["gate"].sel(expert=expert)[patch])
                total += float(own["output_weight"][neuron]) / 4 * gate * float(own["hidden"][neuron, patch])
        assert total == pytest.approx(expected, rel=1e-9)


def test_the_trained_model_is_right_and_keeps_what_decides(data: xr.Dataset) -> None:
    assert data["output"][0] > 0 > data["output"][1]
    for number in (0, 1):
        own = data.isel({"class": number})
        assert float(own["gate"].isel(patch=int(own["signal"])).max()) > 0.9


def test_images_are_those_of_the_test_samples(data: xr.Dataset) -> None:
    raw = DigitTask(pixels="raw").sample(2, trials=[0], seed=1, split="test")
    assert data["signal"].values.tolist() == raw.signal[0].tolist()
    np.testing.assert_allclose(data["image"].values.reshape(2, 16, 64) * float(raw.bank.max()), raw.patches()[0])
    assert float(data["image"].min()) >= 0 and float(data["image"].max()) == 1


def test_every_kept_patch_has_its_experts_mark(data: xr.Dataset, page: Figure) -> None:
    for expert in range(3):
        kept = np.flatnonzero(data["gate"][0, expert])
        found = sorted((round(y - 0.32) * 4 + round(x)) for x, y in marks(page, expert + 1, 2))
        assert found == kept.tolist()


def test_what_decides_is_outlined_in_the_colour_of_its_class(data: xr.Dataset, page: Figure) -> None:
    for number in (0, 1):
        (outline,) = [patch for patch in page.axes[number].patches if isinstance(patch, Rectangle)]
        x, y = outline.get_center()
        assert round(y) * 4 + round(x) == int(data["signal"][number])
        assert same_color(outline.get_edgecolor(), theme.CLASSES[number])


def test_lines_of_the_network_are_as_wide_as_the_gates(data: xr.Dataset, page: Figure) -> None:
    lines = [line.get_linewidth() for line in page.axes[3].get_lines() if line.get_gid() == "gate"]
    gates = data["gate"][0].values
    np.testing.assert_allclose(lines, np.maximum(0.6, 5 * gates[gates > 0]))
    assert len([line for line in page.axes[3].get_lines() if line.get_gid() == "neuron"]) == 6


def test_the_caption_says_who_keeps_what_decides(data: xr.Dataset, page: Figure) -> None:
    said = plots.caption(data)
    assert said.startswith(
        "Each class's deciding patch goes to an expert. "
        "o₁ is kept by expert 1 (100%), f = 3.8; o₂ is kept by experts 2 (93%) and 3 (64%), f = -2.7"
    )
    assert said in [text.get_text().replace("\n", " ") for text in page.texts]
    lost = data.assign(gate=data["gate"] * 0)
    assert plots.caption(lost).startswith("No expert keeps the deciding patch. o₁ is kept by no expert, f = 3.8")
