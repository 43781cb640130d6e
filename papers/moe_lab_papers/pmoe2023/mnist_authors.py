"""The claims of pmoe2023's figure 4 on MNIST as the authors' code trains it, and of figures 5 and 6 on MNIST.

The paper says that the CNN has 40 filters; the code that draws figure 4 has 4. Each claim about the CNN is judged for
both, because the two lead to opposite answers.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import xarray as xr

from moe_lab.patch_routing.figures import samples_for
from moe_lab_papers.claim import Claim, Measurement, Published, Read, Rule, selected
from moe_lab_papers.pmoe2023.figures import (
    BOUND_OF_L,
    FIGURE_4_PLACE,
    GROWS,
    NO_NUMBERS,
    ORDER_K,
    power_of_l,
)
from moe_lab_papers.pmoe2023.mnist import NEEDS_MNIST
from moe_lab_papers.pmoe2023.sources import FIGURES, LEMMAS, MEASURES, PICTURE
from moe_lab_papers.ranges import at_least, half_to_double, near

_SIZES = {"joint": ((100, 300, 600, 1000), "k=8, l=6"), "separate": ((100, 300, 600, 1000), "l=2")}
_CNNS = {"cnn": "40 filters, as the paper says", "cnn-4": "4 filters, as in the authors' code"}
_CELLS = (
    *((kind, count, 8, 6 if kind == "joint" else 2) for kind, (counts, _) in _SIZES.items() for count in counts),
    *((cnn, 1000, 1, 1) for cnn in _CNNS),
)
AUTHORS = Measurement(
    name="pmoe2023/mnist-authors",
    function=f"{MEASURES}:cells",
    seconds=(195, 490),
    paper={"trials": 40},
    device=True,
    quick={"source": "mnist", "recipe": "authors", "cells": _CELLS, "trials": 4},
    full={"source": "mnist", "recipe": "authors", "cells": _CELLS, "trials": 10},
    split=("cells", "cell"),
    needs=NEEDS_MNIST,
)
FIGURE_5 = Measurement(
    name="pmoe2023/figure5-mnist",
    function=f"{FIGURES}:phase_map",
    seconds=(90, 200),
    paper={"trials": 20},
    device=True,
    quick={"source": "mnist", "patches_per_expert": (2, 4, 8), "samples": (100, 200, 400, 700, 1000), "trials": 6},
    full={"source": "mnist", "patches_per_expert": (2, 4, 8), "samples": (100, 200, 400, 700, 1000), "trials": 12},
    split=("patches_per_expert", "patches_per_expert"),
    picture=PICTURE,
    sees="On MNIST too separate training needs more samples the more patches an expert keeps.",
    needs=NEEDS_MNIST,
)
FIGURE_6 = Measurement(
    name="pmoe2023/figure6-mnist",
    function=f"{LEMMAS}:error_by_experts",
    seconds=(130, 390),
    paper={"trials": 60},
    device=True,
    quick={"experts": (1, 8, 40), "samples": 100, "trials": 10},
    full={"experts": (1, 8, 40), "samples": 100, "trials": 30},
    needs=NEEDS_MNIST,
)


def _share(kind: str, cnn: str) -> Read:
    """The N at which the mean accuracy meets that of 1000 samples of a CNN, over 1000.

    Between two sizes the mixture's accuracy is a straight line in log N. The median of the CNN's trials is taken:
    with four filters all four output weights have the same sign in one of eight, so that it says one class.
    """
    counts, own = _SIZES[kind]

    def read(data: xr.Dataset) -> float:
        cells = [f"{kind}, N={count}, {own}" for count in counts]
        mean = data["test_accuracy"].sel(cell=cells).mean("trial").assign_coords(cell=np.log(counts))
        curve = mean.rename(cell="samples").expand_dims("trial").to_dataset(name="test_accuracy")
        reached = float(data["test_accuracy"].sel(cell=f"{cnn}, N=1000").median())
        return float(np.exp(samples_for(curve, reached))) / 1000

    return read


_WHY = {
    "cnn": "joint training has .964 from 300 samples, above this CNN's .959 from 1000, so that it needs a quarter of "
    "them; separate training needs .54, near the published share (four trials at seed 0). It scatters: .23 and .45 at "
    "seed 11, .41 and .87 at seed 12, whose CNN has .964, and .26 and .73, which agrees in kind, at seed 13. Test "
    "images are held out here: where training and test samples share their images, this CNN has .970, which joint "
    "training reaches from about 530 samples (.958 from 300 and .972 from 600; four trials), a share of .53",
    "cnn-4": "this CNN's median is .948 from 1000 samples, which both mixtures reach from 300 or fewer (four trials "
    "at seed 0). It scatters: the median is .92 and .91 at seeds 11 and 12, for which they need .1 and .16, .1 and "
    ".18. At seed 13 three trainings of the four say one class",
}
_STEP = 0.1
"""Half of the 200 samples from one point of figure 4 to the next, over the CNN's 1000."""
_FIGURE_4 = tuple(
    Claim(
        id=f"pmoe2023/figure4/mnist-authors-{kind}-samples-{cnn}",
        where=FIGURE_4_PLACE,
        statement=f"as the authors' code trains, {kind} training needs 60 % of the samples for the accuracy that a CNN "
        f"of {words} gets from 1000 samples of MNIST",
        published=Published(value=0.6, relation="of the CNN's samples"),
        measurement=AUTHORS,
        read=_share(kind, cnn),
        rule=Rule(agrees=near(0.6, _STEP), in_kind=half_to_double(0.6, without=1)),
        reason=_WHY[cnn],
        unit="of the CNN's samples",
    )
    for kind in _SIZES
    for cnn, words in _CNNS.items()
)

_SCATTER = {
    "cnn": "the median of four trainings is .959, .953, .964 and .9595 at seeds 0, 11, 12 and 13, .96 is the limit; "
    "the mean of twelve is .959 too, and that of four is .970 where training and test samples share images, "
    "after 100 epochs as after 150",
    "cnn-4": "with four filters trials scatter: the median of four is .948, .922 and .914 at seeds 0, 11 and 12, and "
    ".496 at seed 13, where three say one class",
}
_LINES = 0.01
"""How far the dotted line of figure 4, the CNN's accuracy from 1000 samples, may be from 95 %."""
_CNN_95 = tuple(
    Claim(
        id=f"pmoe2023/figure4/mnist-authors-{cnn}-accuracy",
        where=FIGURE_4_PLACE,
        statement=f"as the authors' code trains, a CNN of {words} reaches 95 % from 1000 samples of MNIST",
        published=Published(value=0.95, relation="the accuracy at which both are compared"),
        measurement=AUTHORS,
        read=selected("test_accuracy", cell=f"{cnn}, N=1000"),
        rule=Rule(agrees=near(0.95, _LINES), of="median"),
        reason=_SCATTER[cnn],
        unit="accuracy",
    )
    for cnn, words in _CNNS.items()
)


def _times_the_error(reading: str, far: int, near_by: int) -> Read:
    """The error of each trial with one number of experts over the mean error with another."""

    def read(data: xr.Dataset) -> xr.DataArray:
        error = data["test_error"].sel(reading=reading)
        return error.sel(experts=far) / error.sel(experts=near_by).mean()

    return read


_figure_6 = partial(Claim, where="figure 6", measurement=FIGURE_6, unit="times the error")
_GROWS = Published(value=ORDER_K, relation="the dependence on k matches our prediction, k^(1/4)")
_UNSTATED = "the paper does not state what figure 6 keeps fixed"
_AS_PREDICTED = Rule(agrees=near(ORDER_K, 0.1 * ORDER_K), in_kind=half_to_double(ORDER_K, without=1))
CLAIMS: tuple[Claim, ...] = (
    *_FIGURE_4,
    *_CNN_95,
    Claim(
        id="pmoe2023/figure5/mnist-power-of-l",
        where="figure 5 and theorem 4.2",
        statement="on MNIST the samples that separate training needs grow as a power of l, of at most l^8",
        published=BOUND_OF_L,
        measurement=FIGURE_5,
        read=power_of_l,
        rule=Rule(agrees=GROWS),
        reason=NO_NUMBERS,
        unit="power of l",
    ),
    _figure_6(
        id="pmoe2023/figure6/mnist-rise",
        statement="on MNIST a single expert is worse than eight, because more experts find proper routers more easily",
        published=Published(relation="with a larger k it is easier to satisfy assumption 4.4"),
        read=_times_the_error("shared", 1, 8),
        rule=Rule(in_kind=at_least(1.1)),
        reason="with m = 40 neurons for all experts together one does as well as eight in our recipe; as the authors' "
        "code trains, one has an error of .12 and eight have .065. Quick runs scatter: .94, 1.18, 1.15 and 1.18 at "
        "seeds 0, 11, 12 and 13",
    ),
    _figure_6(
        id="pmoe2023/figure6/mnist-fall-shared",
        statement="on MNIST the error grows by half from 8 to 40 experts, which share m = 40 neurons",
        published=_GROWS,
        read=_times_the_error("shared", 40, 8),
        rule=_AS_PREDICTED,
        reason=f"{_UNSTATED}; so read, it grows by a seventh at seed 0, by a fifth at seeds 11 and 12, and by a third, "
        "which agrees in kind, at seed 13",
    ),
    _figure_6(
        id="pmoe2023/figure6/mnist-fall-each",
        statement="on MNIST the error grows by half from 8 to 40 experts of 5 neurons each, so that m = 5 k",
        published=_GROWS,
        read=_times_the_error("each", 40, 8),
        rule=_AS_PREDICTED,
        reason=f"{_UNSTATED}; quick runs scatter, 1.53, 1.79, 1.53 and 1.86 at seeds 0, 11, 12 and 13",
    ),
    _figure_6(
        id="pmoe2023/figure6/mnist-fall-authors",
        statement="on MNIST, as the authors' code trains, the error grows by half from 8 to 40 experts of 5 neurons",
        published=_GROWS,
        read=_times_the_error("authors", 40, 8),
        rule=_AS_PREDICTED,
        reason=f"{_UNSTATED}; after all of 150 epochs the error is the same, .065 and .063, with either number",
    ),
)
