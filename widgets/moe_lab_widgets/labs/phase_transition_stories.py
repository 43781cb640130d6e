"""The phase-transition Lab's stories."""

from __future__ import annotations

from moe_lab_widgets.engine.mnist import MNIST
from moe_lab_widgets.engine.story import Story

DIGITS, SYNTHETIC = "digits", "synthetic"
"""What patches are."""
SEPARATE, JOINT = "separate", "joint"
"""How routers train."""
NOISE = {SYNTHETIC: 0.3, DIGITS: 0.0, MNIST: 0.0}
"""The default of noise, by data."""

STORIES = (
    Story(
        "twice the patches (n = 32)",
        {"patches": 32},
        "l* counts distractors, not patches: it stays 3. l = 3 needs 300 samples instead of 200, although every sample "
        "is twice as large.",
    ),
    Story(
        "noise",
        {"noise": 0.5},
        "l = 3 needs 300 samples instead of 200, and from l = 6 on 560 are too few, although coverage still jumps at "
        "l* = 3. From about 1.2 on noise moves l* as well: coverage then rises slowly.",
    ),
    Story(
        "look-alike classes",
        {"delta_d": 0.6, "gap": 0.4},
        "o₁ and o₂ overlap by 0.6. l* is 3 as before, and coverage still jumps there, but l = 3 needs 560 samples "
        "instead of 200.",
    ),
    Story(
        "handwritten digits",
        {"source": DIGITS, "noise": NOISE[DIGITS]},
        "Sixteen digits in a sample; a 6 or a 7 decides. Real digits blur l*: coverage rises slowly with l. Up to "
        "l = 3, 300 samples suffice; l = 8 needs 800.",
    ),
)
