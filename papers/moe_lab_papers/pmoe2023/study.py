"""Figure 5 of pmoe2023 on MNIST at a size that needs many machines: three pairs of digits, 100 trials in every cell.

    python -m moe_lab_papers.pmoe2023.study MNIST --store figure5                    # on this machine
    python -m moe_lab_papers.pmoe2023.study MNIST --store figure5 --cluster ADDRESS  # on the workers of a scheduler
    python -m moe_lab_papers.pmoe2023.study MNIST --cost                             # what it would cost

MNIST is a folder of the IDX files. Every finished cell is kept in the store, where a study that was stopped or killed
goes on. All workers must be able to reach both folders.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from moe_lab.core.arguments import checked
from moe_lab.core.errors import UserError
from moe_lab.core.files import netcdf, write_whole
from moe_lab.core.workers import on_cluster
from moe_lab.patch_routing.grid_points import make_task
from moe_lab.patch_routing.phase import PATCHES_PER_EXPERT, SAMPLES, phase_map

if TYPE_CHECKING:
    import xarray

PAIRS = ((1, 0), (4, 9), (3, 8))
"""The paper's digits, and two pairs that are harder to tell apart."""
TRIALS, PART = 100, 1
"""Trials in a cell, and how many of them a look at the cost trains."""


@checked
def figure5_study(
    root: Path | str,
    pairs: Sequence[Sequence[int]] = PAIRS,
    patches_per_expert: Sequence[int] = PATCHES_PER_EXPERT,
    samples: Sequence[int] = SAMPLES,
    trials: int = TRIALS,
    seed: int = 0,
    jobs: int | None = None,
    store: Path | str | None = None,
) -> xarray.Dataset:
    """Computes figure 5 on MNIST for each of some pairs of digits.

    Args:
      root: the folder of MNIST's IDX files.
      pairs: two digits each, which decide the label.
      patches_per_expert, samples: the values of l and N.
      trials: of each cell.
      jobs, store: see `moe_lab.core.sweep.sweep`.

    Returns:
      The Dataset of `phase_map` with another axis, pair, labelled "1-0" and so on.

    Raises:
      ValueError: a wrong value or combination, before anything runs.
    """
    import xarray

    tasks = {"-".join(map(str, pair)): make_task("mnist", root=root, digits=tuple(pair)) for pair in pairs}
    maps = [
        phase_map("mnist", patches_per_expert, samples, trials, seed, task=task, jobs=jobs, store=store, device="cpu")
        for task in tasks.values()
    ]
    names = xarray.DataArray(list(tasks), dims="pair", name="pair", attrs={"long_name": "digits that decide"})
    calls = {f"call_{name}": part.attrs["call"] for name, part in zip(tasks, maps, strict=True)}
    return xarray.concat(maps, names, combine_attrs="drop_conflicts").assign_attrs(calls)


def cost(root: Path | str, trials: int = PART) -> str:
    """Trains some trials of every cell of the first pair in this process, and says what the whole study would cost."""
    begun = time.process_time()
    figure5_study(root, PAIRS[:1], trials=trials, jobs=1)
    used = time.process_time() - begun
    trained, whole = (len(PATCHES_PER_EXPERT) * len(SAMPLES) * count for count in (trials, len(PAIRS) * TRIALS))
    hours = used * whole / trained / 3600
    return f"{trained:,} trainings took {used:.0f} CPU seconds: all {whole:,} take about {hours:.1f} core-hours"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m moe_lab_papers.pmoe2023.study", description=__doc__.splitlines()[0]
    )
    parser.add_argument("root", type=Path, help="the folder of MNIST's IDX files")
    parser.add_argument("--out", type=Path, default=Path("figure5.nc"), help="the file to write")
    parser.add_argument("--store", type=Path, help="the folder of finished cells")
    parser.add_argument("--cluster", default="", help="the address of a Dask scheduler")
    parser.add_argument("--jobs", type=int, default=1, help="processes, where no cluster is named")
    parser.add_argument("--cost", action="store_true", help="train a part, and say what all would cost")
    given = parser.parse_args(arguments)
    if given.cost:
        print(cost(given.root))
        return
    with on_cluster(given.cluster):
        found = figure5_study(given.root, jobs=None if given.cluster else given.jobs, store=given.store)
    write_whole(given.out, netcdf(found))
    print(f"written to {given.out}")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(str(error))
