"""Figure 1's map of the samples and the dispatch tables 4 to 6, which are computed from trained weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
import xarray as xr

from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.figure import reproducible
from moe_lab.routers.balance import dispatch_entropy
from moe_lab.specialization.data import ClusterSamples
from moe_lab.specialization.measures import MEASURES
from moe_lab.specialization.predictions import Trained, trained
from moe_lab.specialization.recipes import ClusterFigure, run_of
from moe_lab.specialization.run import ClusterRun

EXPERTS_SHOWN = 4
"""M of figure 1."""
RANGES = {"feature": (0.5, 2.0), "center": (1.0, 2.0), "feature_noise": (1.0, 2.0), "noise": 1.0}
"""alpha, beta, gamma and sigma_p of figure 1 (its caption, and appendix A.1)."""
_KINDS = {"nonlinear": "moe-cubic", "linear": "moe-linear"}


@reproducible()
@checked
def dispatch_table(
    kind: str = "nonlinear",
    setting: int = 1,
    seed: int = 0,
    objective: str = "paper",
    samples: int = 16000,
    *,
    trial: int = 0,
    **more: Any,
) -> xr.Dataset:
    """Tables 4 and 5 (nonlinear) and 6 (linear): the dispatch of the training samples before and after training.

    The initial dispatch is that of the first step, in which routers are zero and the router noise alone decides. The
    final one is that of the trained router, without noise (with noise for the authors' objective, as in its tests).

    Args:
      kind: "nonlinear" (cubic experts) or "linear".
      setting: 1 to 4; the paper does not state which it shows.
      seed, trial: of one training of `table3`.
      objective, samples, more: as for `figures.table3`, without store and jobs.

    Returns:
      initial_dispatch and final_dispatch over (cluster, expert) in training samples, dispatch_entropy of the latter,
      and test_accuracy.
    """
    require(kind in _KINDS, "kind must be 'nonlinear' or 'linear'", kind=kind)
    place = "table 4" if kind == "nonlinear" else "table 6"
    figure, run, point = _one(place, _KINDS[kind], setting, seed, trial, objective, samples, more, {})
    model = trained(run)
    shown, noise = model.samples("train"), model.first_noise()
    clusters = shown.clusters[0].cpu().numpy()
    counts = {
        "initial_dispatch": (noise[0].argmax(0), "in the first step: zero routers and router noise"),
        "final_dispatch": (model.predict(shown, model.last_noise("train")).expert[0], "after training"),
    }
    data = xr.Dataset(
        coords={"cluster": np.arange(1, run.task.clusters + 1), "expert": np.arange(1, noise.shape[1] + 1)}
    )
    for name, (chosen, when) in counts.items():
        table = np.zeros((data.sizes["cluster"], data.sizes["expert"]))
        np.add.at(table, (clusters, chosen.cpu().numpy()), 1)
        about = {"units": "samples", "long_name": f"training samples of the cluster that are sent to the expert {when}"}
        data[name] = ("cluster", "expert"), table, about
    entropy = dispatch_entropy(torch.as_tensor(data["final_dispatch"].values))
    data["dispatch_entropy"] = (), float(entropy), {"units": "nats", "long_name": "eq. 6.1 of final_dispatch"}
    data["test_accuracy"] = (), float(model.measures["test_accuracy"][0]), _about("test_accuracy")
    data.attrs = figure.attrs_of([(point, run)])
    return data


@reproducible()
@checked
def tsne(
    seed: int = 0,
    objective: str = "paper",
    samples: int = 1600,
    *,
    shown: int = 1600,
    trial: int = 1,
    stretch: float = 3.0,
    perplexity: float = 30.0,
    neighbours: int = 5,
    resolution: int = 160,
    **more: Any,
) -> xr.Dataset:
    """Figure 1: test samples on a plane, the expert of each, and the regions of the mixture's predictions.

    M=4 experts for K=4 clusters. The map is t-SNE of the patches in a fixed order (feature, center, feature noise,
    noise), which is hidden from the models, with the noise patch multiplied by `stretch` (appendix A.1: 3) so that
    points lie apart; predictions are for the unchanged samples. A point of the plane has the prediction of most of its
    nearest shown samples, as in the authors' code.

    Trial 1 of seed 0 is selected: like the paper's training, it is one of those (15 of the first 20) in which each of
    the four cubic experts has a cluster of its own. In the others two of them share a cluster, and a cluster has none.

    Departs from the paper: the authors' code for this figure has alpha = 1 and stretches the noise of the training
    samples too; here alpha is sampled from (.5, 2), as in the caption.

    Args:
      shown: test samples on the map.
      stretch: factor of the noise patches on the map.
      perplexity: of t-SNE.
      neighbours: samples that determine a point of the plane.
      resolution: points of the plane along each side.
      seed, objective, samples, trial, more: as for `dispatch_table`.

    Returns:
      xy(sample, axis) within -1 to 1, cluster(sample), label(sample) -1 or 1; for each model ("moe-linear",
      "moe-cubic") expert(model, sample), answer(model, sample) -1 or 1, region(model, y, x) -1 or 1, test_accuracy and
      dispatch_entropy.
    """
    require(shown >= 10, "shown must be at least 10 samples", shown=shown)
    require(0 < stretch < 1e3, "stretch must be between 0 and 1000", stretch=stretch)
    require(1 <= perplexity < shown, "perplexity must be at least 1 and less than shown", perplexity=perplexity)
    require(1 <= neighbours <= shown, "neighbours must be from 1 to shown", neighbours=neighbours)
    require(2 <= resolution <= 2000, "resolution must be from 2 to 2000", resolution=resolution)
    names = ("moe-linear", "moe-cubic")
    changes: dict[str, dict[str, Any]] = {"task": RANGES, **{name: {"experts": EXPERTS_SHOWN} for name in names}}
    more = {**more, "test_samples": shown}
    made = [_one("figure 1", name, 3, seed, trial, objective, samples, more, changes) for name in names]
    models = {name: trained(run) for name, (_, run, _) in zip(names, made, strict=True)}
    data = _mapped(models, stretch, perplexity, seed, neighbours, resolution)
    figure = made[0][0]
    data.attrs = figure.attrs_of([(point, run) for _, run, point in made])
    return data


def embed(samples: ClusterSamples, stretch: float, scale: float, perplexity: float, seed: int) -> np.ndarray:
    """Computes (N, 2) t-SNE of trial 0's unshuffled patches over `scale`, noise times `stretch`, within -1 to 1."""
    from sklearn.manifold import TSNE  # here, because it takes a second to import

    places = torch.arange(samples.order.shape[2], device=samples.order.device)
    wide = replace(samples, noise=samples.noise * stretch, order=places.expand_as(samples.order))
    rows = (wide.patches()[0].flatten(1) / scale).cpu().numpy().astype(np.float64)
    found = TSNE(n_components=2, perplexity=perplexity, init="pca", random_state=seed % 2**32).fit_transform(rows)
    centred = found - (found.max(0) + found.min(0)) / 2
    return np.asarray(centred / np.abs(centred).max(), dtype=np.float64)


def regions(xy: np.ndarray, outputs: np.ndarray, places: np.ndarray, neighbours: int) -> np.ndarray:
    """Returns (y, x) the prediction, -1 or 1, for most of the nearest samples of each point of a square grid."""
    from sklearn.neighbors import KNeighborsClassifier

    answers = np.where(outputs > 0, 1, -1)
    nearest = KNeighborsClassifier(neighbours).fit(xy, answers)
    across, up = np.meshgrid(places, places)
    return np.asarray(nearest.predict(np.column_stack((across.ravel(), up.ravel())))).reshape(across.shape)


def _mapped(
    models: dict[str, Trained], stretch: float, perplexity: float, seed: int, neighbours: int, resolution: int
) -> xr.Dataset:
    """The map of the test samples, which all models share, and each model's predictions on it."""
    first = next(iter(models.values()))
    samples = first.samples("test")
    xy = embed(samples, stretch, first.run.task.scale, perplexity, seed)
    predictions = [model.predict(samples, model.last_noise("test")) for model in models.values()]
    experts = np.stack([found.expert[0].cpu().numpy() + 1 for found in predictions])
    outputs = np.stack([found.output[0].cpu().numpy() for found in predictions])
    places = np.linspace(-1.05, 1.05, resolution)
    ground = np.stack([regions(xy, output, places, neighbours) for output in outputs])
    measures = {
        name: ("model", np.array([model.measures[name][0] for model in models.values()]), _about(name))
        for name in ("test_accuracy", "dispatch_entropy")
    }
    nearest = f"answer that most of the {neighbours} nearest shown samples got"
    return xr.Dataset(
        {
            "xy": (("sample", "axis"), xy, {"long_name": "place on the t-SNE map"}),
            "cluster": ("sample", samples.clusters[0].cpu().numpy() + 1, {"long_name": "cluster of the sample"}),
            "label": ("sample", samples.labels[0].cpu().numpy(), {"long_name": "label of the sample"}),
            "expert": (("model", "sample"), experts, {"long_name": "expert that the sample is sent to"}),
            "answer": (("model", "sample"), np.where(outputs > 0, 1, -1), {"long_name": "sign of the model's output"}),
            "region": (("model", "y", "x"), ground, {"long_name": nearest}),
            **measures,
        },
        coords={"model": list(models), "axis": ["x", "y"], "x": places, "y": places},
    )


def _about(measure: str) -> dict[str, str]:
    """The attrs of a measure."""
    return {"units": MEASURES[measure].unit, "long_name": MEASURES[measure].meaning}


def _one(
    place: str,
    model: str,
    setting: int,
    seed: int,
    trial: int,
    objective: str,
    samples: int,
    more: dict[str, Any],
    changes: dict[str, dict[str, Any]],
) -> tuple[ClusterFigure, ClusterRun, dict[str, Any]]:
    """Makes the figure, the checked Run and the recorded point of one training of one model."""
    refused = [key for key in more if key in ("store", "jobs")]
    require(not refused, "one training has no store and no jobs", settings=refused)
    figure = ClusterFigure(place, 1, seed, more, objective, samples)
    point: dict[str, Any] = {"setting": setting, "model": model}
    how: dict[str, Any] = {"objective": objective, "changes": changes}
    run = run_of(point, trials=1, seed=seed, settings={**figure.settings, "first_trial": trial}, **how)
    return figure, run, point if not changes else {"model": model}
