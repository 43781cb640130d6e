"""The layer of experts of WRN-pMoE with kept patches alone, against all patches and zeros; three models."""

from __future__ import annotations

import statistics
import time

import torch

from benchmarks.measure import Result, in_turns, ratio
from moe_lab.vision import WRN, PatchWRN, QuadrantTask
from moe_lab.vision.patches import network, train

SIZES = {"channels": 640, "experts": 4, "patches_per_expert": 16}  # the paper's, for CIFAR-10: n=64, l=16
CELLS, BATCH = 8, 32
STUDY = PatchWRN(trunk="plain", batch_size=64)
CONTROLS = (STUDY.replace(gates="none"), WRN(trunk="plain", batch_size=64))
IDEAL = 1 - SIZES["patches_per_expert"] / CELLS**2


def run(tiny: bool = False) -> list[Result]:
    return [*sparse(1, 1), *frames(samples=100, epochs=1)] if tiny else [*sparse(), *frames()]


def sparse(calls: int = 2, rounds: int = 15) -> list[Result]:
    """The share of the ideal saving, 1 - l/n, that leaving unkept patches out brings to a forward pass of the layer."""
    torch.manual_seed(0)
    layer = network.PatchLayer(**SIZES).eval()
    x = torch.randn(BATCH, SIZES["channels"], CELLS, CELLS).contiguous(memory_format=torch.channels_last)
    torch.nn.init.normal_(layer.gates.weight, std=1e-2)
    with torch.no_grad():
        routed = layer.routed(x)
        values = routed.gates.gather(2, routed.places)
        rivals = {
            "sparse": lambda: layer.gathered(x, values, routed.places),
            "masked": lambda: layer.masked(x, routed.gates),
        }
        torch.testing.assert_close(rivals["sparse"](), rivals["masked"](), rtol=1e-3, atol=1e-4)
        seconds = in_turns(rivals, calls=calls, rounds=rounds)
    saved = 1 - ratio(seconds["sparse"], seconds["masked"])
    note = f"masked {1e3 * statistics.median(seconds['masked']):.1f} ms for {BATCH} images"
    return [Result("patches_saving_of_ideal", saved / IDEAL, "of 1 - l/n", 0.8, "at least", note)]


def frames(samples: int = 1000, epochs: int = 4) -> list[Result]:
    """Frames a second of three models side by side on digits in quadrants, two steps each, 300 test images measured."""
    settings = {"samples": samples, "trials": 1, "record_every": 2}
    list(train(PatchWRN(trunk="plain"), QuadrantTask(), epochs=1, **settings))
    settings["epochs"] = epochs
    begin = time.process_time()
    controls = (train(model, QuadrantTask(), measure_every=10, **settings) for model in CONTROLS)
    running = zip(train(STUDY, QuadrantTask(), **settings), *controls, strict=True)
    next(running)
    first = time.process_time() - begin
    count = sum(1 for _ in running)
    each = (time.process_time() - begin - first) / count
    return [
        Result("patches_first_snapshot", 1e3 * first, "ms"),
        Result("patches_frames", 1 / each, "frames per CPU second"),
    ]
