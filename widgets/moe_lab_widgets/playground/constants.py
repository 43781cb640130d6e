"""The modules that are generated for the playground's engine: scikit-learn's digits, and numbers of the library."""

from __future__ import annotations

import base64
import importlib
import json
import zlib
from typing import Any

import numpy as np

from moe_lab.datasets import digits
from moe_lab.patch_routing import DigitTask, JointMoE, PatchRun, PatternTask, SeparateMoE
from moe_lab.patch_routing.data import ROLES
from moe_lab.patch_routing.digits import TEST_EVERY
from moe_lab_widgets.playground.declared import PHASES, kind_of


def modules() -> dict[str, str]:
    """Returns the texts of `digits.js` and `library.js`."""
    found = {"digits": packed_digits(), "library": library()}
    return {f"{name}.js": f"export const {name.upper()} = {json.dumps(value)};\n" for name, value in found.items()}


def library() -> dict[str, Any]:
    """Returns the numbers of the library that the engine needs, as `LIBRARY` holds them."""
    home = importlib.import_module(kind_of(PHASES).__module__)
    digit_task, pattern_task, separate = DigitTask(), PatternTask(), SeparateMoE()
    return {
        "roles": {role: place for place, role in enumerate(ROLES)},
        "batch": JointMoE().batch_size,
        "digits": {
            "pair": digit_task.digits,
            "rate": digit_task.learning_rate,
            "testEvery": TEST_EVERY,
            "levels": digits.LEVELS,
        },
        "patterns": {
            "dimension": pattern_task.dimension,
            "sets": pattern_task.pattern_sets,
            "rate": pattern_task.learning_rate,
        },
        "map": {
            "kept": home.KEPT,
            "testSamples": home.TEST_SAMPLES[home.SYNTHETIC],
            "rate": home.LEARNING_RATE[home.SYNTHETIC],
            "neurons": separate.neurons,
            "epochs": PatchRun.model_fields["epochs"].default,
            "routerEpochs": separate.router_epochs,
        },
    }


def packed_digits() -> str:
    """Returns the images as base64 of deflated bytes: the labels, then for each pixel its grey value in every image.

    Grey values come in the order of the labels, as images of one digit are alike, which packs better.
    """
    images = digits.load()
    order = images.labels.argsort(kind="stable")
    rows = np.vstack((images.labels, images.images[order].T * digits.LEVELS)).astype(np.uint8)
    packer = zlib.compressobj(level=9, wbits=-zlib.MAX_WBITS)
    return base64.b64encode(packer.compress(rows.tobytes()) + packer.flush()).decode()
