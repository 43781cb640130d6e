"""Small runs of every measurement, from which tests read claims."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import xarray as xr

from moe_lab.core.files import from_netcdf, netcdf
from moe_lab.pruning.initialization import BranchStart
from moe_lab_papers import ledger
from moe_lab_papers.claim import Claim, imported
from moe_lab_papers.pruning2024 import vmoe
from moe_lab_papers.pruning2024.vmoe import VMoE
from moe_lab_papers.runner import Done, Order, joined, pieces
from tests.vision.cifar_files import cifar10, records
from tests.vmoe.released_files import checkpoint

CLAIMS = {claim.id: claim for claim in ledger.claims()}
MEASUREMENTS = {measurement.name: measurement for measurement in ledger.measurements(ledger.claims())}

_EPOCHS = {"trials": 2, "epochs": 2, "test_samples": 400}
_STEPS = {"samples": 40, "test_samples": 40, "trials": 2, "steps": 3}
_PRUNED = {"rho": (0.0, 0.5, 0.8), "trials": 1, "fine_tuning_steps": 2}
_STUCK = {"spectral_iterations": 20, "joint_iterations": 20}
_TRUE = {"regressors": ("true",), "gating": ("orthogonal",)}
_EM = {"trials": 2, "iterations": 3}
_FOLDER = tempfile.TemporaryDirectory(prefix="moe_lab_small_")
_FILES = Path(_FOLDER.name)
_SHORT = vmoe.PRE_TRAINING.replace(steps=2, warm_up=1, batch=25, test_images=50)
_TINY = {"trials": 2, "steps": 2, "batch": 25, "test_images": 50, "pre_training": _SHORT, "folder": _FILES / "cache"}
_IMAGES = {"root": str(cifar10(_FILES / "cifar")), "trials": 2, "epochs": 1, "test_samples": 8}
_VIT = vmoe.TINY.replace(group_size=40)  # four images of 12 x 12 pixels
(_FILES / "cifar" / "test.bin").write_bytes(records(8, 1, label_bytes=2))
for _number, _name in enumerate(("start", "end")):
    checkpoint(_FILES / "cifar" / _name, VMoE(_VIT, seed=_number))
_RELEASED = {"config": _VIT, "start": "start", "end": "end", "root": _IMAGES["root"], "side": 12}
_CLUSTERS = [f"table3-{kind}{part}" for kind in ("nonlinear", "linear") for part in ("", "-authors")]
_CLUSTERS += ["table3-single-nonlinear", "table3-single-linear", "table3-512-linear"]
_CLUSTERS += ["table7", "table8", "table9"]
_CLUSTERS += ["figure3", "figure4", "figure5"]
_BALANCED = ["no-lead", "collapse", "unequal", "finer", "shared"]
SMALL: dict[str, dict[str, Any]] = {
    "pmoe2023/figure4-digits": {"samples": (60, 100), "tuning_trials": 2, **_EPOCHS},
    "pmoe2023/figure5-digits": {"patches_per_expert": (2, 8), "samples": (60,), **_EPOCHS},
    "pmoe2023/figure6-digits": _EPOCHS,
    "pmoe2023/figure7-digits": _EPOCHS,
    "pmoe2023/figure8-digits": {"patches_per_expert": (4,), "samples": (300,), "trials": 2},
    "pmoe2023/figure9-digits": {"samples": (300,), **_EPOCHS},
    "pmoe2023/digits-cells": {**_EPOCHS, "epochs": 1},
    "pmoe2023/mnist-cells": {"source": "patterns", **_EPOCHS},  # in place of files that may be missing
    "pmoe2023/figure8-mnist": {"source": "digits", "trials": 2},
    "pmoe2023/mnist-authors": {"source": "digits", **_EPOCHS},
    "pmoe2023/figure5-mnist": {"source": "patterns", "samples": (60,), **_EPOCHS},
    "pmoe2023/figure6-mnist": {"source": "digits", "samples": 60, **_EPOCHS},
    "pmoe2023/lemmas-steps": {"neurons": (40,), "trials": 2, "steps": 2},
    "pmoe2023/lemmas-decrease": {"trials": 2, "neurons": 40, "samples": 100},
    "pmoe2023/lemmas-routers": {"samples": 200, "trials": 2},
    "pmoe2023/router-samples": {"trials": 2, "samples": 200},
    "pmoe2023/appendixM-training": {"samples": 40, **_EPOCHS},
    "pmoe2023/finding1-spurious": {"samples": 40, **_EPOCHS},
    "pmoe2023/lemma4.1": {"patches_per_expert": (4, 5, 16), "samples": (400,), "trials": 2},
    "pmoe2023/appendixM-routers": {"patches_per_expert": (4, 5), "samples": (400,), "trials": 2},
    "pmoe2023/finding1-kept": {"samples": 400, "trials": 2},
    "pmoe2023/lemmaE.1": {"samples": (100, 400), "trials": 2},
    "pmoe2023/assumption4.4": {"samples": (60,), "trials": 2},
    "pmoe2023/theorems-by-n": {"samples": 40, **_EPOCHS},
    "pmoe2023/theorems-by-p-and-error": {"pattern_sets": (16, 64), "samples": (40, 80), **_EPOCHS},
    "pmoe2023/finding3-by-overlap": {"samples": 40, **_EPOCHS},
    "pmoe2023/lemmaK.1": {"samples": 200, "trials": 2},
    "pmoe2023/bounds": {},
    "pmoe2023/networks": {},
    "pmoe2023/step-time": {"width": 1, "images": 2, "repeats": 1},
    "pmoe2023/cifar": {"samples": (8,), **_IMAGES},
    "chen2022/table2-digits-jittered": {"trials": 2, "samples": 60, "epochs": 1, "test_samples": 40},
    "chen2022/table2-digits-reversed": {"trials": 2, "samples": 60, "epochs": 1, "test_samples": 40},
    "chen2022/table2-cnn": {"samples": 8, **_IMAGES},
    "chen2022/table2-resnet18": {"samples": 8, "width": 2, **_IMAGES},
    "chen2022/table4": _STEPS,
    "chen2022/table6": _STEPS,
    **{f"chen2022/{name}": _STEPS for name in _CLUSTERS},
    "chen2022/figure1": {"trials": 2, "samples": 40, "shown": 40},
    "chen2022/linear-mixture": {"trials": 2, "samples": 100},
    "chen2022/ensembles": {"trials": 2, "samples": 20, "sizes": (1, 2)},
    "chen2022/theorem4.1": {"trials": 2, "samples": 10},
    "chen2022/lemma5.1": {"trials": 6, "tries": 3, "experts": (2, 3)},
    "chen2022/theorem4.2": {"trials": 2, "samples": 40, "steps": 3},
    "chen2022/theorem4.2-large-start": {"trials": 2, "samples": 40, "steps": 3},
    "chen2022/lemmas-start": {"trials": 2, "tries": 200},
    "chen2022/lemmas-exploration": {"samples": 40, "trials": 2},
    "chen2022/soft-routing": {"samples": 40, "steps": 1, "repeats": 2},
    "chen2022/lemma5.2": {"trials": 2, "samples": 40},
    "pruning2024/figure3": {"trials": 1, "test_samples": 100},
    "pruning2024/figure7": {"trials": 1, "test_samples": 100},
    "pruning2024/criteria-pretrained-token-choice": {**_PRUNED, "steps": 5, "start": BranchStart(tasks=2, steps=5)},
    "pruning2024/efficiency": {"rho": (0.0, 0.5, 0.75), "neurons": 8, "dimension": 8, "samples": 1, "repeats": 1},
    "pruning2024/statements-planted": {"trials": 1, "test_samples": 100, "later_steps": 5},
    "pruning2024/statements-random": {"trials": 1, "test_samples": 100},
    "pruning2024/margins": {"trials": 1, "test_samples": 100},
    "pruning2024/independence": {"trials": 1, "steps": 5},
    "pruning2024/gradients": {"trials": 3},
    "pruning2024/vision-models": {},
    "pruning2024/built": {},
    "pruning2024/figure10-v-moe-time": {"repeats": 1},
    "pruning2024/figure10-e3-time": {"blocks": 6, "repeats": 1},
    "pruning2024/v-moe-time": {"blocks": 2, "repeats": 1},
    "pruning2024/e3-time": {"blocks": 6, "repeats": 1},
    "pruning2024/tiny-v-moe": _TINY,
    "pruning2024/e3-s32-cifar-100": {**_RELEASED, "pruned": (0, 6)},
    "pruning2024/b16-cifar-10": {**_RELEASED, "whole": (1,)},
    **{f"{paper}/wrong-regressors": {"trials": 2, "samples": 400} for paper in ("gated2019", "gridlock2019")},
    **{f"{paper}/operators": {"trials": 2, "samples": 400, "points": 2} for paper in ("gated2019", "gridlock2019")},
    "gated2019/batches": {"trials": 2, "steps": 20},
    "gated2019/split-samples": {"dimensions": (6, 12), "steps": (2, 4), "trials": 2, "each": 50, "samples": 400},
    "gated2019/remark2": {"trials": 2, "experts": (2,), "dimension": 5},
    "gated2019/fresh-samples": {"counts": (200, 800), "trials": 2, "steps": 4},
    "gated2019/landscape-by-samples": {"counts": (100, 400), "trials": 2, "points": 2},
    "gridlock2019/free-coefficients": {"activations": ("identity", "relu")},
    "gridlock2019/quartic-moment": {"trials": 2, "samples": 2000},
    "gridlock2019/fewest-dimensions": {"trials": 2, "samples": 400, "experts": (2, 3), "spectral_iterations": 20},
    "gridlock2019/one-m-step": {"experts": (3,), "activations": ("identity",), "samples": 400},
    "gridlock2019/table1": {"trials": 2, "samples": 400},
    "gridlock2019/table2": {"trials": 2, "samples": 400},
    "gridlock2019/conditions": {"activations": ("identity", "sigmoid"), "noise": (0.1,)},
    "gridlock2019/theorem1-tensor": {"trials": 2, "samples": 2000},
    "gridlock2019/theorem2-gates": {"trials": 2, "samples": 300, "iterations": 4},
    "gridlock2019/theorem3-moment": {"trials": 2, "samples": 2000},
    "gridlock2019/theorem3-gates": {"trials": 2, "samples": (500, 20000), **_TRUE},
    "gridlock2019/figure3": {**_EM, "iterations": 12, "samples": 500, "d": 5},
    "gridlock2019/figure4": {**_EM, "d": 4},
    "gridlock2019/figure5": {**_EM, "samples": 800, "d": 4},
    "gridlock2019/section4.3-stuck": {"trials": 2, "k": (3,), "d": 4, "samples": (400,), **_STUCK},
    "gridlock2019/figure6-airfoil": {"source": "diabetes", **_EM},  # in place of files that may be missing
    "gridlock2019/figure6-concrete": {"source": "diabetes", **_EM},
    "gated2019/figure2a": {"trials": 2, "steps": 30, "batch": 64},
    "gated2019/figure2b": {"trials": 2, "steps": 4, "regressor_steps": 5, "batch": 64},
    "gated2019/figure3": {"trials": 2, "steps": 4, "regressor_steps": 5, "batch": 64},
    "gated2019/figure4": {"trials": 2, "steps": 20, "every": 5},
    "gated2019/section2-gru": {"cells": 2, "samples": 64},
    "gated2019/eq8": {"trials": 2, "samples": 3200},
    "gated2019/lemma1-tensor": {"trials": 2, "samples": 2000},
    "gated2019/theorem1-landscape": {"trials": 2, "steps": 20},
    "gated2019/theorem2-fixed": {"trials": 1, "steps": 20},
    "gated2019/theorem3-descent": {"trials": 2},
    "gated2019/conditions": {"activations": ("identity", "sigmoid"), "noise": (0.1,)},
    "gated2019/printed-identity": {},
    "gated2019/printed-relu": {},
    **{f"routers/{name}": {"samples": 40, "trials": 2, "steps": 3} for name in _BALANCED},
    "routers/least-loss": {"tries": 20},
    **{f"routers/{name}": {"samples": 60, **_EPOCHS} for name in ("one-place-a-patch", "three-places-a-patch")},
    "routers/gates": {"samples": (100, 200), "trials": 2, "iterations": 3},
}
"""What to change of a measurement's quick arguments so that it takes no time."""


@cache
def small(name: str) -> xr.Dataset:
    """Returns a small run of a measurement, joined from its pieces as they are read back from their files."""
    measurement = MEASUREMENTS[name]
    brief = replace(measurement, quick={**measurement.quick, **SMALL[name]}, needs=None)
    done = []
    for piece in pieces(brief, Order("quick", 2, "cpu", Path("unused"))):
        data = imported(piece.function)(**piece.arguments).assign_attrs(measured_by=piece.call)
        done.append(Done(piece, from_netcdf(netcdf(data)), 0.0))
    return joined(brief, done)


def verdict(identity: str, data: xr.Dataset | None = None) -> str:
    """Returns the verdict of a claim on a Dataset; on the small run of its measurement if none is given."""
    claim = CLAIMS[identity]
    return claim.rule.leaning(claim.values(small(claim.measurement.name) if data is None else data))


def turned(identity: str, change: Callable[[xr.Dataset], xr.Dataset]) -> str:
    """Returns the verdict of a claim on the changed small run of its measurement."""
    return verdict(identity, change(small(CLAIMS[identity].measurement.name)))


def claims_of(measurement: str) -> list[Claim]:
    """Returns the claims that read a measurement."""
    return [claim for claim in CLAIMS.values() if claim.measurement.name == measurement]
