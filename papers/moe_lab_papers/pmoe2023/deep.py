"""The claims of pmoe2023's section 5.2 and appendix A, about wide residual networks.

What they cost is counted at the paper's size, and a training step is timed with random weights. Accuracies on data made
of CIFAR-10 are measured where a folder of its files is given. The paper shows them as curves only, so that a claim
agrees in kind at most. CelebA has no stable address: figures 10 to 12 have no claims.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from moe_lab.vision.figures import published_compute
from moe_lab_papers.claim import Needs
from moe_lab_papers.paper import Paper, budgets, says
from moe_lab_papers.pmoe2023 import deep_measures as measures
from moe_lab_papers.ranges import at_least, factor_of_two, plus_minus
from moe_lab_papers.readers import at, ratio, reader

paper = Paper("pmoe2023")

networks = paper.measure("networks", measures.networks, seconds=(0.5, 0.5), unit="of WRN's")
step = paper.measure(
    "step-time", measures.step_time, seconds=(6, 80), width=budgets(4, 10), images=8, repeats=budgets(5, 3)
)


def _share(quantity: str) -> float:
    """WRN-pMoE's share of WRN's in table 2, the mean of its rows."""
    values = published_compute()[f"published_{quantity}"]
    return round(float((values.sel(model="WRN-pMoE") / values.sel(model="WRN")).mean()), 3)


@reader
def share_of_flops(data: xr.Dataset, counted: str) -> float:
    """Returns WRN-pMoE's FLOPs, counted in one of two ways, over WRN's."""
    return float((data[counted].sel(model="WRN-pMoE") / data["training_flops"].sel(model="WRN"))[0])


_ROWS = 0.02
"""Around the mean of table 2's rows, which are up to .013 away from it."""
_FEWER = "the paper multiplies seconds until convergence by the GPU's speed, so that fewer epochs count as well"
_FLOPS = says(_share("flops"), "FLOPs until convergence").agrees(plus_minus(_ROWS), factor_of_two(without=1))
networks.claim(
    "table2/training-flops",
    "training WRN-pMoE takes this share of WRN's FLOPs, counted as the authors' code computes",
    share_of_flops("training_flops"),
    _FLOPS,
    not_comparable=f"FLOPs of an image; {_FEWER}. The authors' code multiplies unkept patches by zero, which saves "
    "nothing",
)
networks.claim(
    "table2/training-flops-skipping",
    "WRN-pMoE has a lower cost per iteration, if patches that are not kept are left out",
    share_of_flops("training_flops_skipping"),
    _FLOPS,
    not_comparable=f"FLOPs of an image; {_FEWER}",
    where="section 5.2, table 2",
)
networks.claim(
    "table2/wrn-flops-4000",
    "training WRN until it converges costs 6e15 FLOPs, so that all 50 epochs cost at least as many",
    at("training_flops", samples=4000, model="WRN", per=1e15),
    says(6, "until convergence, and so in all epochs", bound="at least").agrees(at_least(5.5)),  # a whole number
    "two FLOPs per multiplication, backward twice forward; the paper multiplies measured seconds by the GPU's peak "
    "speed and a utilization that it does not state",
    where="table 2, 4000 training samples",
    unit="1e15 FLOPs",
)
step.claim(
    "table2/step-time",
    "WRN-pMoE has a lower cost per iteration: the time of a training step, unkept patches left out",
    ratio("seconds", model=("WRN-pMoE", "WRN"), median="repeat"),
    says(_share("seconds"), "of WRN's seconds until convergence").agrees(
        plus_minus(2 * _ROWS), factor_of_two(without=1)
    ),
    not_comparable=f"the time of one step; {_FEWER}. Gathering patches and normalising each expert cost what "
    "leaving patches out saves; the quick budget has width 4 in place of 10",
    where="section 5.2, table 2",
    unit="of WRN's",
)
for place, where, data_set, words in (
    ("section5.2", "section 5.2, neural network model", "celeba", "CelebA"),
    ("appendixA", "section 5.2 and appendix A", "cifar", "CIFAR-10"),
):
    networks.claim(
        f"{place}/equal-parameters-{data_set}",
        f"WRN-pMoE has as many trainable parameters as WRN, on {words}",
        ratio("parameters", data=data_set, model=("WRN-pMoE", "WRN")),
        says(1, "an equal number").agrees(plus_minus(0.005), plus_minus(0.05)),
        "the authors' code replaces the whole last group, not its last convolution",
        where=where,
    )

cifar = paper.measure(
    "cifar",
    measures.cifar,
    seconds=(900, 200_000),
    split=("variants", "variant"),
    needs=Needs(
        what="CIFAR-10's binary version (cifar-10-binary.tar.gz, or the folder in it)",
        argument="root",
        pattern="cifar-10-*bin*",
    ),
    unit="accuracy",
    reason="the paper shows curves; the quick budget trains width 1 on 4,000 images for 12 epochs",
    variants=("classes", "noise", "vehicles"),
    samples=budgets((4000,), (4000, 12000, 20000)),
    trials=budgets(2, 5),
    width=budgets(1, 10),
    epochs=budgets(12, 50),
    test_samples=budgets(1000, 4000),
)


def _lead(data: xr.Dataset, variant: str) -> xr.DataArray:
    accuracy = data["test_accuracy"].sel(variant=variant).mean("samples")
    return accuracy.sel(model="learned") - accuracy.sel(model="conv")


lead = reader(_lead)


@reader
def larger_lead(data: xr.Dataset) -> np.ndarray:
    """Returns the smaller of the mean leads on the constructed data sets less that on CIFAR-10 itself."""
    constructed = np.minimum(_lead(data, "noise").mean("trial"), _lead(data, "vehicles").mean("trial"))
    return np.asarray(constructed - _lead(data, "classes").mean("trial"))


for figure, variant, words, other in (
    (14, "classes", "CIFAR-10", ""),
    (15, "noise", "CIFAR-10 images on a background", "backgrounds are random, not ImageNet's"),
    (16, "vehicles", "CIFAR-VEHICLES", ""),
):
    cifar.claim(
        f"figure{figure}/outperforms",
        f"WRN-pMoE outperforms WRN on {words}",
        lead(variant),
        says("WRN-pMoE is above WRN").in_kind(at_least(0.01)),
        not_comparable=other,
        where=f"appendix A, figure {figure}",
    )
cifar.claim(
    "appendixA/local-features",
    "WRN-pMoE's lead is larger on the two constructed data sets than on CIFAR-10 itself",
    larger_lead(),
    says("the gap is more significant").in_kind(at_least(0.01)),
    not_comparable="one of the two data sets has random backgrounds, not ImageNet's",
    where="appendix A, figures 14 to 16",
)
