"""The stuck-rate Lab's stories. Their numbers are those of ten starts a cell, with each story's own settings."""

from __future__ import annotations

from moe_lab_widgets.engine.story import Story

EM, GRADIENT = "EM", "gradient EM"
"""What random starts move by."""

STORIES = (
    Story(
        "Longer inputs (d = 12)",
        {"dimension": 12, "seed": 0},
        "More numbers for the moments to learn. With 250 samples the spectral start finds 3 experts in 60 %, random "
        "ones in 50 %. With 2000 it finds 6 in 90 %; from random starts it is 20 %.",
    ),
    Story(
        "Six oblique regressors",
        {"regressors": "random", "seed": 0},
        "Regressors that are not orthogonal. With 2000 samples random starts find 6 experts in 90 %, the spectral "
        "start in 10 %. A likely cause: whitening stretches the noise with what it makes orthogonal.",
    ),
    Story(
        "Gradient steps for the gates",
        {"step": GRADIENT, "seed": 0},
        "One gradient step in place of Newton's: 5 experts and 1000 samples are found in 50 %, as before. Here it "
        "makes no difference how the gates move.",
    ),
)
