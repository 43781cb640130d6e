"""The measurement behind chen2022's table 2: a network and a mixture of four of it, each trained as the paper says."""

from __future__ import annotations

from typing import Any

import xarray as xr

from moe_lab.core.config import require
from moe_lab.core.snapshots import final
from moe_lab.vision import CifarRotateTask, Mixture, ResNet18, SmallCNN, rotation

_NETWORKS: dict[str, type[SmallCNN] | type[ResNet18]] = {"cnn": SmallCNN, "resnet18": ResNet18}


def rotated(
    network: str,
    samples: int,
    epochs: int,
    trials: int,
    seed: int = 0,
    *,
    root: str,
    width: int | None = None,
    device: str = "auto",
    test_samples: int = 20_000,
) -> xr.Dataset:
    """Trains a single network by SGD and a mixture of four by normalised descent, on CIFAR-10-Rotate.

    Args:
      network: "cnn" or "resnet18".
      samples, epochs, trials, seed, device, test_samples: as for `rotation.TurnRun`; the paper has 100,000 images, as
        they are and turned, and 50 epochs.
      root: a folder of CIFAR-10's binary version, or of its archive.
      width: channels of ResNet18's first stage; None for the network's own.

    Returns:
      test_accuracy(model, trial) of "single" and "mixture".

    Raises:
      ValueError: the network is neither.
    """
    require(network in _NETWORKS, f"network must be one of {', '.join(_NETWORKS)}", network=network)
    one = _NETWORKS[network].paper()
    one = one if width is None else one.replace(width=width)
    settings: dict[str, Any] = {"samples": samples, "epochs": epochs, "trials": trials, "seed": seed, "device": device}
    settings |= {"test_samples": test_samples, "measure": "last", "record_every": 10**6, "examples": 0}
    task = CifarRotateTask(**{"root": root})
    ends = [final(rotation.train(model, task, **settings)) for model in (one, Mixture.paper(one))]
    accuracy = [end["test_accuracy"] for end in ends]
    return xr.Dataset({"test_accuracy": (("model", "trial"), accuracy)}, {"model": ["single", "mixture"]})
