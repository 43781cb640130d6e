"""All trials at once are those one after another, for every kind of gates that a page has."""

from __future__ import annotations

import numpy as np
import pytest

from moe_lab.core.snapshots import Snapshot
from moe_lab.vision import WRN, PatchWRN, QuadrantTask
from moe_lab.vision.patches.model import Model
from moe_lab.vision.patches.run import PatchImageRun
from moe_lab.vision.patches.together import PatchImageTraining
from moe_lab.vision.patches.training import train_run

SHARED = {"trunk": "plain", "batch_size": 20}
MODELS = [
    PatchWRN(patches_per_expert=2, **SHARED),
    PatchWRN(patches_per_expert=3, experts=2, softmax="kept", **SHARED),
    PatchWRN(gates="soft", **SHARED),
    PatchWRN(gates="none", experts=2, **SHARED),
    WRN(**SHARED),
]


@pytest.mark.parametrize("model", MODELS, ids=["learned", "kept", "soft", "none", "conv"])
def test_all_trials_at_once_are_those_one_after_another(model: Model) -> None:
    run = PatchImageRun(
        model=model, task=QuadrantTask(), samples=40, trials=3, epochs=2, test_samples=30, precision="float64",
        device="cpu", record_every=2,
    )  # fmt: skip
    together, apart = list(PatchImageTraining(run).snapshots()), list(train_run(run))
    assert [one.step for one in together] == [one.step for one in apart]
    for own, expected in zip(together, apart, strict=True):
        same(own, expected)


def same(own: Snapshot, expected: Snapshot) -> None:
    assert own.values.keys() == expected.values.keys()
    for name, value in expected.values.items():
        np.testing.assert_allclose(own[name], value, rtol=1e-9, atol=1e-9, err_msg=name)
