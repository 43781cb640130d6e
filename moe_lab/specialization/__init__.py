"""Specialisation (chen2022): nonlinear experts that specialise in clusters, and a router that learns the assignment."""

from moe_lab.specialization.arrays import ArrayTask
from moe_lab.specialization.data import ClusterSamples, ClusterTask
from moe_lab.specialization.model import SingleExpert, SwitchMoE
from moe_lab.specialization.run import ClusterRun
from moe_lab.specialization.topk import TopKMoE
from moe_lab.specialization.training import train, train_run

__all__ = [
    "ArrayTask",
    "ClusterRun",
    "ClusterSamples",
    "ClusterTask",
    "SingleExpert",
    "SwitchMoE",
    "TopKMoE",
    "train",
    "train_run",
]
