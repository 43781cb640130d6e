"""Measurements behind chen2022's claims about lemmas D.1 to F.1 and about the load of experts (eq. 5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import xarray as xr

from moe_lab.specialization import ClusterRun, ClusterTask, SwitchMoE
from moe_lab_papers.chen2022 import theory_start
from moe_lab_papers.chen2022.theory_start import power


def before_training(trials: int, seed: int = 0, *, tries: int = 20000) -> xr.Dataset:
    """Measures how the sums and products of lemmas D.1, D.2 and F.1 grow, in setting 3.

    Returns:
      Powers of n: centers and features (D.1); of d: norm, signal and other (D.2), over (trial,); and second(gap,
      experts), the estimated probability of lemma F.1 over G M^2.
    """
    task, counts, dimensions = ClusterTask.setting(3), (250, 1000, 4000), (50, 200, 800)
    centers, features = theory_start.cubed_sums(task, counts, trials, seed)
    rows = [theory_start.noise_products(task, dimensions, 200, trial, seed) for trial in range(trials)]
    powers = np.array([[power(dimensions, part) for part in row] for row in rows])
    gaps, experts = (0.01, 0.05), (2, 4, 8)
    second = [theory_start.second_largest(m, g, tries, seed) / (g * m**2) for g, m in product(gaps, experts)]
    return xr.Dataset(
        {
            "centers": power(counts, centers),
            "features": power(counts, features),
            **{name: ("trial", powers[:, place]) for place, name in enumerate(("norm", "signal", "other"))},
            "second": (("gap", "experts"), np.reshape(second, (len(gaps), len(experts)))),
        },
        {"gap": list(gaps), "experts": list(experts)},
    )


def exploration_powers(starts: Sequence[float], samples: int, trials: int, seed: int = 0) -> xr.Dataset:
    """Trains mixtures from several sigma_0 until exploration ends, in setting 3 (lemmas D.4, E.4, E.6, E.7, eq. 5.1).

    Returns:
      Over (trial,): the powers of sigma_0 with which own, other and uneven grow (see `theory_start.Explored`); at the
      smallest sigma_0, start and along over 1 - sigma_0^.1; and loads, the least `group_ratio` at any sigma_0.
    """
    task = ClusterTask.setting(3)
    given = {"samples": samples, "test_samples": 10, "trials": trials, "seed": seed, "device": "cpu"}
    seen = [
        theory_start.explored(ClusterRun(model=SwitchMoE(initial_scale=start), task=task, **given)) for start in starts
    ]
    grown = {name: np.array([getattr(one, name) for one in seen]) for name in ("own", "other", "uneven")}
    values = {name: [power(starts, part[:, trial]) for trial in range(trials)] for name, part in grown.items()}
    least = int(np.argmin(starts))
    values["start"] = list(seen[least].start)
    values["along"] = list(seen[least].along / (1 - starts[least] ** 0.1))
    values["loads"] = list(np.min([one.group_ratio() for one in seen], axis=0))
    return xr.Dataset({name: ("trial", part) for name, part in values.items()})
