"""pmoe2023's sample complexity (figures 10 and 16 in kind) and table 2, and chen2022's table 2 with its controls.

Each is one call that returns a labelled Dataset, which `plots` draws. A Dataset records in `.attrs["call"]` how to make
it again. Wrong values raise a ValueError before anything trains.

What does not replicate at the sizes that train here:

- The paper's gain of WRN-pMoE over WRN (`sample_complexity`). On digits in quadrants, in batches of 50, learned gates
  gain -.002 ± .017 over none with N=200 (12 paired trials) and .010 ± .006 with N=600 (9 trials). Where the batch size
  does not divide N, accuracy is measured after a small batch, whose batch norm lowers the gated model.
- The gain of mixtures on turned images is gone where the task does not give the answer away. `controls("jittered")`
  (three seeds): single .969, same parameters .975, wide .979, mixture .970, balanced .967, oracle .965, random .923.
  "linear", least squares on the pixels, solves all three digit tasks (.99 and more), with no mixture at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.figure import reproducible
from moe_lab.core.grid import checked_axes
from moe_lab.core.origins import as_tuple, origin
from moe_lab.core.snapshots import final
from moe_lab.core.trials import device_labels
from moe_lab.vision import patches, rotation
from moe_lab.vision.patches.data import QuadrantTask, VehiclesTask
from moe_lab.vision.patches.model import WRN, PatchWRN
from moe_lab.vision.rotation.data import CifarRotateTask, TurnTask
from moe_lab.vision.rotation.linear import fitted, parameters
from moe_lab.vision.rotation.model import Mixture, ResNet18, SmallCNN
from moe_lab.vision.run import ImageRun

__all__ = ["CONTROLS", "SAMPLE_MODELS", "compute", "controls", "published_compute", "sample_complexity"]

SAMPLE_MODELS = ("learned", "none", "random", "soft", "conv")
"""The models of `sample_complexity`: WRN-pMoE by its gates, and the network without experts."""
LINEAR = "linear"
CONTROLS = ("single", "same parameters", "wide", "mixture", "balanced", "oracle", "random", LINEAR)
"""The models of `controls`; the last is no network."""
_SAMPLES = (4000, 8000, 12000, 16000)
_PUBLISHED: dict[str, dict[str, tuple[float, ...]]] = {
    "training_flops": {"WRN": (6e15, 7.5e15, 11e15, 15e15), "WRN-pMoE": (3.5e15, 4.4e15, 6.4e15, 8.5e15)},
    "seconds": {"WRN": (260, 324, 468, 630), "WRN-pMoE": (156, 192, 280, 368)},
}
_EPOCHS = 50
_IMAGE, _CLASSES = (3, 64, 64), 4  # table 2 is about four classes of CelebA


# --- pmoe2023 -------------------------------------------------------------------------------------------------------


@reproducible()
@checked
def sample_complexity(
    samples: int | Sequence[int] = (200, 400, 800),
    models: str | Sequence[str] = ("learned", "none", "conv"),
    trials: int = 3,
    seed: int = 0,
    *,
    root: Path | str | None = None,
    variant: str = "vehicles",
    width: int = 1,
    steps: int = 100,
    **more: Any,
) -> xr.Dataset:
    """Measures test accuracy against the number of training samples: WRN-pMoE, without gates, and a conv head.

    Trial i has the same samples, order and first trunk for all models of a number of samples, so that their differences
    are paired. What learned gates gain over no gates is not to be told from 0 (see the head of this module).

    Args:
      samples: N, one or several.
      models: one or several of SAMPLE_MODELS.
      root: a folder of CIFAR-10's binary version, for `VehiclesTask`; None for the embedded `QuadrantTask`.
      variant: of `VehiclesTask`.
      width: of the networks; 10 with a root is the paper's size, and trains on a GPU.
      steps: about how many steps each training takes, whatever N is: epochs are rounded up. The paper has 50 epochs.
      more: other parameters of `patches.PatchImageRun`: epochs (in place of steps), test_samples, device, ...

    Returns:
      test_accuracy, train_accuracy and kept_in_object over (samples, model, trial), the last NaN for models without
      patches to keep, and chance(samples, trial), the share of patches in the object.
    """
    counts, names = as_tuple(samples), as_tuple(models)
    _known(names, SAMPLE_MODELS)
    axes = checked_axes({"samples": counts, "model": names})
    require(all(count >= 1 for count in counts), "samples (N) must be at least 1", N=min(counts))
    task = QuadrantTask() if root is None else VehiclesTask(**{"root": root, "variant": variant})
    runs = {}
    for count in counts:
        for name in names:
            model = patch_model(name, embedded=root is None, width=width)
            per_pass = -(-int(count) // min(model.batch_size, int(count)))
            settings = {"epochs": -(-steps // per_pass), **more}
            runs[count, name] = patches.PatchImageRun(
                model=model, task=task, samples=count, trials=trials, seed=seed, **{**_LAST, **settings}
            )
    values = ("test_accuracy", "train_accuracy", "kept_in_object", "chance")
    data = _filled(axes, values, ((key, final(patches.train_run(run)).values) for key, run in runs.items()), trials)
    data["samples"].attrs = {"units": "samples", "long_name": "N, training samples"}
    if "learned" in names:
        data["chance"] = data["chance"].sel(model="learned", drop=True)
    place = "figure 16 in kind" if root is not None else "figure 16 in kind, digits in quadrants"
    settled = {} if root is not None else {"variant": None}
    return _about(data, "pmoe2023", place, list(runs.values()), settled=settled)


def patch_model(name: str, embedded: bool = True, width: int = 1) -> PatchWRN | WRN:
    """Returns the model of a name in SAMPLE_MODELS, with the plain trunk for embedded digits, else with the paper's."""
    sizes: dict[str, Any] = {"width": width, "trunk": "plain"} if embedded else {"width": width}
    if name == "conv":
        return WRN(**sizes)
    return PatchWRN(**sizes, gates=name, patches_per_expert=4 if embedded else 16)  # type: ignore[arg-type]


@reproducible()
@checked
def compute() -> xr.Dataset:
    """Table 2 of pmoe2023: the cost of training WRN and WRN-pMoE on four classes of CelebA, counted and published.

    Counted are 50 epochs, two FLOPs per multiplication, backward twice forward. The paper does not count: it multiplies
    measured seconds by the GPU's speed. Its 6e15 for WRN at 4,000 samples is above what all 50 epochs cost, 4.8e15.
    Counted, the two models cost nearly the same (.99), because the authors' code multiplies unkept patches by zero
    instead of leaving them out (.78 if it did); the published ratio of .58 is one of time to convergence.

    Returns:
      training_flops(samples, model), training_flops_skipping (unkept patches left out), parameters(model) and
      macs(model), and from the paper published_flops and published_seconds(samples, model).
    """
    counts = {
        "WRN": WRN.paper("celeba").count(_IMAGE, _CLASSES),
        "WRN-pMoE": PatchWRN.paper("celeba").count(_IMAGE, _CLASSES),
    }
    names, images = list(counts), np.array(_SAMPLES) * _EPOCHS
    each = np.array([count.training_flops for count in counts.values()], dtype=float)
    skipped = np.array([6 * (count.macs - count.macs_skipping) for count in counts.values()], dtype=float)
    both, flops = ("samples", "model"), "FLOPs"
    data = xr.Dataset(
        {
            "training_flops": (both, images[:, None] * each, {"units": flops, "long_name": "FLOPs of 50 epochs"}),
            "training_flops_skipping": (
                both,
                images[:, None] * (each - skipped),
                {"units": flops, "long_name": "FLOPs of 50 epochs, unkept patches left out"},
            ),
            "parameters": ("model", [count.parameters for count in counts.values()], {"long_name": "parameters"}),
            "macs": ("model", [count.macs for count in counts.values()], {"long_name": "multiplications per image"}),
        },
        coords={"samples": list(_SAMPLES), "model": names},
    )
    return _about(xr.merge([data, published_compute()]), "pmoe2023", "table 2", [])


@checked
def published_compute() -> xr.Dataset:
    """Table 2 as printed: FLOPs and seconds until convergence over (samples, model)."""
    names = list(_PUBLISHED["seconds"])
    values = {
        "published_flops": ("training_flops", "FLOPs until convergence"),
        "published_seconds": ("seconds", "seconds until convergence"),
    }
    return xr.Dataset(
        {
            name: (
                ("samples", "model"),
                np.array([_PUBLISHED[key][model] for model in names], dtype=float).T,
                {"units": "s" if key == "seconds" else "FLOPs", "long_name": meaning},
            )
            for name, (key, meaning) in values.items()
        },
        coords={"samples": list(_SAMPLES), "model": names},
    )


# --- chen2022 -------------------------------------------------------------------------------------------------------


@reproducible()
@checked
def controls(
    kind: str = "jittered",
    models: str | Sequence[str] = CONTROLS,
    trials: int = 3,
    seed: int = 0,
    *,
    root: Path | str | None = None,
    expert: SmallCNN | ResNet18 | None = None,
    experts: int | None = None,
    **more: Any,
) -> xr.Dataset:
    """Table 2 of chen2022 in kind: a mixture on turned images beside the models that could explain its accuracy.

    "single" is one expert; "same parameters" one network with as many parameters as the mixture's experts together;
    "wide" one with as many filters; "balanced" has the load-balancing loss; "oracle" sends each cluster to an expert of
    its own; "random" sends images anywhere. All are trained alike; the paper's single models and mixtures are not.
    "linear" is least squares on the pixels, as linear as a mixture's router.

    Args:
      kind: of `TurnTask`: "reversed", "leaky" or "jittered".
      models: one or several of CONTROLS.
      root: a folder of CIFAR-10's binary version, for `CifarRotateTask` in place of the digits.
      expert: None for `SmallCNN` with (1, 2) filters for "reversed", (2, 4) for other digits, (64, 128) with a root.
      experts: M; None for two for "reversed", else four as in the paper.
      more: other parameters of `rotation.TurnRun`: samples, epochs, test_samples, device, precision, ...

    Returns:
      test_accuracy, train_accuracy and dispatch_entropy over (model, trial), the last NaN for single networks,
      expert_load over (model, trial, expert) and parameters(model).
    """
    names = as_tuple(models)
    _known(names, CONTROLS)
    axes = checked_axes({"model": names})
    task = TurnTask(**{"kind": kind}) if root is None else CifarRotateTask(**{"root": root})
    two = root is None and kind == "reversed"
    chosen = expert or (SmallCNN.paper() if root is not None else SmallCNN(filters=(1, 2) if two else (2, 4)))
    count = experts or (2 if two else 4)
    settings: dict[str, Any] = {"task": task, "trials": trials, "seed": seed, **_LAST, **more}
    made = {name: turn_model(name, chosen, count, task.image) for name in names if name != LINEAR}
    runs = {name: rotation.TurnRun(model=model, **settings) for name, model in made.items()}
    linear = rotation.TurnRun(model=chosen, **settings)
    values = ("test_accuracy", "train_accuracy", "dispatch_entropy", "expert_load")
    results = (
        ((name,), fitted(linear) if name == LINEAR else final(rotation.train_run(runs[name])).values) for name in names
    )
    data = _filled(axes, values, results, trials, count)
    sizes = {name: model.parameters_for(task.image) for name, model in made.items()}
    counted = [sizes.get(name, parameters(task.image)) for name in names]
    data["parameters"] = "model", counted, {"long_name": "parameters"}
    place = "table 2 in kind, digits" if root is None else "table 2 in kind"
    return _about(data, "chen2022", place, list(runs.values()) or [linear])


def turn_model(
    name: str, expert: SmallCNN | ResNet18, experts: int, image: tuple[int, int, int]
) -> SmallCNN | ResNet18 | Mixture:
    """Returns the network of a name in CONTROLS."""
    if name == "single":
        return expert
    if name == "wide":
        return _widened(expert, float(experts))
    if name == "same parameters":
        wanted = experts * expert.parameters_for(image)
        sizes = [_widened(expert, 1 + step / 8) for step in range(8 * experts)]
        return min(sizes, key=lambda model: abs(model.parameters_for(image) - wanted))
    changes: dict[str, Any] = {"oracle": {"routing": "oracle"}, "random": {"routing": "random"}}.get(name, {})
    return Mixture(expert=expert, experts=experts, **({"balance": 0.1} if name == "balanced" else changes))


def _widened(model: SmallCNN | ResNet18, factor: float) -> SmallCNN | ResNet18:
    if isinstance(model, ResNet18):
        return model.replace(width=round(model.width * factor))
    first, second = model.filters
    return model.replace(filters=(round(first * factor), round(second * factor)))


# --- Datasets -------------------------------------------------------------------------------------------------------

_LAST: dict[str, Any] = {"measure": "last", "record_every": 10**6, "examples": 0}


def _known(names: Sequence[str], models: Sequence[str]) -> None:
    require(len(names) > 0 and set(names) <= set(models), f"models must be among {', '.join(models)}", models=names)


def _filled(
    axes: dict[str, list[Any]],
    names: Sequence[str],
    results: Iterable[tuple[tuple[Any, ...], Any]],
    trials: int,
    experts: int = 0,
) -> xr.Dataset:
    """Puts the last values of every run into arrays over the axes and the trials; NaN where a run has no such value."""
    shape = (*(len(values) for values in axes.values()), trials)
    arrays = {name: np.full(shape + ((experts,) if name == "expert_load" else ()), np.nan) for name in names}
    for key, values in results:
        place = tuple(axis.index(part) for axis, part in zip(axes.values(), key, strict=True))
        for name in names:
            if name in values:
                arrays[name][place] = values[name]
    known = patches.MEASURES | rotation.MEASURES
    variables = {
        name: (
            (*axes, "trial", *known[name].dims),
            array,
            {"units": known[name].unit, "long_name": known[name].meaning},
        )
        for name, array in arrays.items()
    }
    data = xr.Dataset(variables, coords={**axes, "trial": np.arange(trials)})
    data["model"].attrs = {"long_name": "model"}
    return data


def _about(data: xr.Dataset, paper: str, place: str, runs: Sequence[ImageRun], **more: Any) -> xr.Dataset:
    """Adds the attrs that say how to make the Dataset again, without its call."""
    about = origin(
        call="",
        config=[run.record() for run in runs],
        seed=runs[0].seed if runs else 0,
        device=device_labels(runs) or "cpu",
        paper=f"{paper}, {place}",
        figure=place,
        **more,
    )
    for run in runs[:1]:
        about |= run.task.provenance()  # type: ignore[attr-defined]
    return data.assign_attrs(about)
