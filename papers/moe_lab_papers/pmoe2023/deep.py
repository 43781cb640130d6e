"""The claims of pmoe2023's section 5.2 and appendix A, about wide residual networks.

What they cost is counted at the paper's size, and a training step is timed with random weights. Accuracies on data made
of CIFAR-10 are measured where a folder of its files is given. The paper shows them as curves only, so that a claim
agrees in kind at most. CelebA has no stable address: figures 10 to 12 have no claims.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import xarray as xr

from moe_lab.vision.figures import published_compute
from moe_lab_papers.claim import Claim, Measurement, Needs, Published, Read, Rule
from moe_lab_papers.ranges import at_least, half_to_double, near

_MEASURES = "moe_lab_papers.pmoe2023.deep_measures"

NETWORKS = Measurement(
    name="pmoe2023/networks", function=f"{_MEASURES}:networks", quick={}, full={}, seconds=(0.5, 0.5), seeded=False
)
STEP = Measurement.sized(
    name="pmoe2023/step-time",
    function=f"{_MEASURES}:step_time",
    sizes={"width": (4, 10), "images": (8, 8), "repeats": (5, 3)},
    seconds=(6, 80),
)
_VARIANTS = ("classes", "noise", "vehicles")
CIFAR = Measurement.sized(
    name="pmoe2023/cifar",
    function=f"{_MEASURES}:cifar",
    sizes={
        "variants": (_VARIANTS, _VARIANTS),
        "samples": ((4000,), (4000, 12000, 20000)),
        "trials": (2, 5),
        "width": (1, 10),
        "epochs": (12, 50),
        "test_samples": (1000, 4000),
    },
    seconds=(900, 200_000),
    split=("variants", "variant"),
    device=True,
    needs=Needs(
        what="CIFAR-10's binary version (cifar-10-binary.tar.gz, or the folder in it)",
        argument="root",
        pattern="cifar-10-*bin*",
    ),
)


def _share(quantity: str) -> float:
    """WRN-pMoE's share of WRN's in table 2, the mean of its rows."""
    values = published_compute()[f"published_{quantity}"]
    return round(float((values.sel(model="WRN-pMoE") / values.sel(model="WRN")).mean()), 3)


def _counted(name: str) -> Read:
    return lambda data: float((data[name].sel(model="WRN-pMoE") / data["training_flops"].sel(model="WRN"))[0])


def _parameters(data_set: str) -> Read:
    def read(data: xr.Dataset) -> float:
        values = data["parameters"].sel(data=data_set)
        return float(values.sel(model="WRN-pMoE") / values.sel(model="WRN"))

    return read


_ROWS = 0.02
"""Around the mean of table 2's rows, which are up to .013 away from it."""
_FEWER = "the paper multiplies seconds until convergence by the GPU's speed, so that fewer epochs count as well"
_GROUP = "the authors' code replaces the whole last group, not its last convolution"
_networks = partial(Claim, measurement=NETWORKS)
_TABLE_2 = (
    _networks(
        id="pmoe2023/table2/training-flops",
        where="table 2",
        statement="training WRN-pMoE takes this share of WRN's FLOPs, counted as the authors' code computes",
        published=Published(value=_share("flops"), relation="FLOPs until convergence"),
        read=_counted("training_flops"),
        rule=Rule(agrees=near(_share("flops"), _ROWS), in_kind=half_to_double(_share("flops"), without=1)),
        not_comparable=f"FLOPs of an image; {_FEWER}. The authors' code multiplies unkept patches by zero, which saves "
        "nothing",
        unit="of WRN's",
    ),
    _networks(
        id="pmoe2023/table2/training-flops-skipping",
        where="section 5.2, table 2",
        statement="WRN-pMoE has a lower cost per iteration, if patches that are not kept are left out",
        published=Published(value=_share("flops"), relation="FLOPs until convergence"),
        read=_counted("training_flops_skipping"),
        rule=Rule(agrees=near(_share("flops"), _ROWS), in_kind=half_to_double(_share("flops"), without=1)),
        not_comparable=f"FLOPs of an image; {_FEWER}",
        unit="of WRN's",
    ),
    _networks(
        id="pmoe2023/table2/wrn-flops-4000",
        where="table 2, 4000 training samples",
        statement="training WRN until it converges costs 6e15 FLOPs, so that all 50 epochs cost at least as many",
        published=Published(value=6, bound="at least", relation="until convergence, and so in all epochs"),
        read=lambda data: float(data["training_flops"].sel(samples=4000, model="WRN")) / 1e15,
        rule=Rule(agrees=at_least(5.5)),  # printed as a whole number
        reason="two FLOPs per multiplication, backward twice forward; the paper multiplies measured seconds "
        "by the GPU's peak speed and a utilization that it does not state",
        unit="1e15 FLOPs",
    ),
    Claim(
        id="pmoe2023/table2/step-time",
        where="section 5.2, table 2",
        statement="WRN-pMoE has a lower cost per iteration: the time of a training step, unkept patches left out",
        published=Published(value=_share("seconds"), relation="of WRN's seconds until convergence"),
        measurement=STEP,
        read=lambda data: (
            data["seconds"].median("repeat").sel(model="WRN-pMoE") / data["seconds"].median("repeat").sel(model="WRN")
        ),
        rule=Rule(agrees=near(_share("seconds"), 2 * _ROWS), in_kind=half_to_double(_share("seconds"), without=1)),
        not_comparable=f"the time of one step; {_FEWER}. Gathering patches and normalising each expert cost what "
        "leaving patches out saves; the quick budget has width 4 in place of 10",
        unit="of WRN's",
    ),
    *(
        _networks(
            id=f"pmoe2023/{place}/equal-parameters-{name}",
            where=where,
            statement=f"WRN-pMoE has as many trainable parameters as WRN, on {words}",
            published=Published(value=1, relation="an equal number"),
            read=_parameters(name),
            rule=Rule(agrees=near(1, 0.005), in_kind=near(1, 0.05)),
            reason=_GROUP,
            unit="of WRN's",
        )
        for place, where, name, words in (
            ("section5.2", "section 5.2, neural network model", "celeba", "CelebA"),
            ("appendixA", "section 5.2 and appendix A", "cifar", "CIFAR-10"),
        )
    ),
)


def _lead(data: xr.Dataset, variant: str) -> xr.DataArray:
    accuracy = data["test_accuracy"].sel(variant=variant).mean("samples")
    return accuracy.sel(model="learned") - accuracy.sel(model="conv")


def _ahead(variant: str) -> Read:
    return lambda data: _lead(data, variant)


def _larger(data: xr.Dataset) -> np.ndarray:
    constructed = np.minimum(_lead(data, "noise").mean("trial"), _lead(data, "vehicles").mean("trial"))
    return np.asarray(constructed - _lead(data, "classes").mean("trial"))


_CURVES = "the paper shows curves; the quick budget trains width 1 on 4,000 images for 12 epochs"
_CIFAR = (
    *(
        Claim(
            id=f"pmoe2023/figure{number}/outperforms",
            where=f"appendix A, figure {number}",
            statement=f"WRN-pMoE outperforms WRN on {words}",
            published=Published(relation="WRN-pMoE is above WRN"),
            measurement=CIFAR,
            read=_ahead(variant),
            rule=Rule(in_kind=at_least(0.01)),
            reason=_CURVES,
            not_comparable=other,
            unit="accuracy",
        )
        for number, variant, words, other in (
            (14, "classes", "CIFAR-10", ""),
            (15, "noise", "CIFAR-10 images on a background", "backgrounds are random, not ImageNet's"),
            (16, "vehicles", "CIFAR-VEHICLES", ""),
        )
    ),
    Claim(
        id="pmoe2023/appendixA/local-features",
        where="appendix A, figures 14 to 16",
        statement="WRN-pMoE's lead is larger on the two constructed data sets than on CIFAR-10 itself",
        published=Published(relation="the gap is more significant"),
        measurement=CIFAR,
        read=_larger,
        rule=Rule(in_kind=at_least(0.01)),
        reason=_CURVES,
        not_comparable="one of the two data sets has random backgrounds, not ImageNet's",
        unit="accuracy",
    ),
)

CLAIMS: tuple[Claim, ...] = (*_TABLE_2, *_CIFAR)
