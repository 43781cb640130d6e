"""The gridlock Lab's stories. Numbers were measured with each story's own settings; errors are medians of 3 trials."""

from __future__ import annotations

from moe_lab_widgets.engine.story import Story

PRINTED = "P3(y) as printed"
"""P3 with the coefficients that the paper prints (see `moe_lab.recovery.printed`)."""

STORIES = (
    Story(
        "Easy: k = 3, EM needs no help",
        {"experts": 3, "dimension": 10, "samples": 8000, "noise": 0.5, "regressors": "random", "seed": 0},
        "The paper's own setting (section 4.3). Both methods find all 3 regressors in 3 of 3 trials: error 0.32. "
        "Joint EM takes 24 iterations, with the better start it is 7. The published advantage does not replicate "
        "here; see k = 8.",
    ),
    Story(
        "Mixture inputs (p = .3)",
        {"first_share": 0.3, "seed": 0},
        "Inputs from two Gaussians, whose score functions replace the Hermite polynomials. All 8 regressors are found "
        "in 3 of 3 trials (error 0.75); joint EM is stuck in 3 of 3, at 5.4.",
    ),
    Story(
        "Printed against derived ReLU",
        {"activation": "relu", "experts": 3, "dimension": 10, "samples": 8000, "third": PRINTED, "seed": 0},
        "The paper's P₃ forgets a delta function: E[S He₂] = .33 should be 0. Yet the power iterations reach 0.96, and "
        "0.81 with T₃ = P3(y), whose signal is c₃ = .37 instead of 1.09: noise outweighs bias. EM makes 1.00 of both.",
    ),
    Story(
        "Oblique regressors",
        {"regressors": "random", "seed": 0},
        "Whitening stretches what it makes orthogonal, and the noise with it. With random regressors the worst |cos| "
        "is 0.27 and EM finds all 8 in 1 of 3 trials: error 3.1. Joint EM: 5.5, 3 of 3 stuck.",
    ),
)
