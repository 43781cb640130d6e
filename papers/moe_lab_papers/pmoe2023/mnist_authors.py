"""The claims of pmoe2023's figure 4 on MNIST as the authors' code trains it, and of figures 5 and 6 on MNIST.

The paper says that the CNN has 40 filters; the code that draws figure 4 has 4. Each claim about the CNN is judged for
both, because the two lead to opposite answers.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from moe_lab.patch_routing.figures import samples_for
from moe_lab.patch_routing.phase import phase_map
from moe_lab_papers.paper import Paper, budgets, says
from moe_lab_papers.pmoe2023 import lemma_measures, measures
from moe_lab_papers.pmoe2023.figures import BOUND_OF_L, FIGURE_4_PLACE, GROWS, NO_NUMBERS, ORDER_K, power_of_l
from moe_lab_papers.pmoe2023.mnist import NEEDS_MNIST
from moe_lab_papers.ranges import at_least, factor_of_two, plus_minus
from moe_lab_papers.readers import at, over_mean, reader

paper = Paper("pmoe2023", picture="moe_lab.patch_routing.plots:picture")

_SIZES = {"joint": ((100, 300, 600, 1000), "k=8, l=6"), "separate": ((100, 300, 600, 1000), "l=2")}
_CNNS = {"cnn": "40 filters, as the paper says", "cnn-4": "4 filters, as in the authors' code"}
authors = paper.measure(
    "mnist-authors",
    measures.cells,
    seconds=(195, 490),
    split=("cells", "cell"),
    needs=NEEDS_MNIST,
    where=FIGURE_4_PLACE,
    source="mnist",
    recipe="authors",
    cells=(
        *((kind, count, 8, 6 if kind == "joint" else 2) for kind, (counts, _) in _SIZES.items() for count in counts),
        *((cnn, 1000, 1, 1) for cnn in _CNNS),
    ),
    trials=budgets(4, 10, paper=40),
)


@reader
def share_of_samples(data: xr.Dataset, kind: str, cnn: str) -> float:
    """Returns the N at which the mean accuracy equals a CNN's with 1000 samples, over 1000.

    Between two sizes the mixture's accuracy is a straight line in log N. The median of the CNN's trials is taken:
    with four filters all four output weights have the same sign in one of eight, so that it says one class.
    """
    counts, own = _SIZES[kind]
    cells = [f"{kind}, N={count}, {own}" for count in counts]
    mean = data["test_accuracy"].sel(cell=cells).mean("trial").assign_coords(cell=np.log(counts))
    curve = mean.rename(cell="samples").expand_dims("trial").to_dataset(name="test_accuracy")
    reached = float(data["test_accuracy"].sel(cell=f"{cnn}, N=1000").median())
    return float(np.exp(samples_for(curve, reached))) / 1000


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
for kind in _SIZES:
    for cnn, words in _CNNS.items():
        authors.claim(
            f"figure4/mnist-authors-{kind}-samples-{cnn}",
            f"as the authors' code trains, {kind} training needs 60 % of the samples for the accuracy that a CNN of "
            f"{words} gets from 1000 samples of MNIST",
            share_of_samples(kind, cnn),
            says(0.6, "of the CNN's samples").agrees(plus_minus(_STEP), factor_of_two(without=1)),
            _WHY[cnn],
            unit="of the CNN's samples",
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
for cnn, words in _CNNS.items():
    authors.claim(
        f"figure4/mnist-authors-{cnn}-accuracy",
        f"as the authors' code trains, a CNN of {words} reaches 95 % from 1000 samples of MNIST",
        at("test_accuracy", cell=f"{cnn}, N=1000"),
        says(0.95, "the accuracy at which both are compared").agrees(plus_minus(_LINES), of="median"),
        _SCATTER[cnn],
        unit="accuracy",
    )

figure_5 = paper.measure(
    "figure5-mnist",
    phase_map,
    seconds=(90, 200),
    split="patches_per_expert",
    sees="On MNIST too separate training needs more samples the more patches an expert keeps.",
    needs=NEEDS_MNIST,
    source="mnist",
    patches_per_expert=(2, 4, 8),
    samples=(100, 200, 400, 700, 1000),
    trials=budgets(6, 12, paper=20),
)
figure_5.claim(
    "figure5/mnist-power-of-l",
    "on MNIST the samples that separate training needs grow as a power of l, of at most l^8",
    power_of_l(),
    BOUND_OF_L.agrees(GROWS),
    NO_NUMBERS,
    where="figure 5 and theorem 4.2",
    unit="power of l",
)

figure_6 = paper.measure(
    "figure6-mnist",
    lemma_measures.error_by_experts,
    seconds=(130, 390),
    needs=NEEDS_MNIST,
    unit="times the error",
    experts=(1, 8, 40),
    samples=100,
    trials=budgets(10, 30, paper=60),
)
figure_6.claim(
    "figure6/mnist-rise",
    "on MNIST a single expert is worse than eight, because more experts find proper routers more easily",
    over_mean("test_error", reading="shared", experts=(1, 8)),
    says("with a larger k it is easier to satisfy assumption 4.4").in_kind(at_least(1.1)),
    "with m = 40 neurons for all experts together one does as well as eight in our recipe; as the authors' "
    "code trains, one has an error of .12 and eight have .065. Quick runs scatter: .94, 1.18, 1.15 and 1.18 at "
    "seeds 0, 11, 12 and 13",
)
_UNSTATED = "the paper does not state what figure 6 keeps fixed"
_AS_PREDICTED = says(ORDER_K, "the dependence on k matches our prediction, k^(1/4)").agrees(
    plus_minus(relative=0.1), factor_of_two(without=1)
)
for reading, words, reason in (
    (
        "shared",
        "on MNIST the error grows by half from 8 to 40 experts, which share m = 40 neurons",
        "so read, it grows by a seventh at seed 0, by a fifth at seeds 11 and 12, and by a third, which agrees in "
        "kind, at seed 13",
    ),
    (
        "each",
        "on MNIST the error grows by half from 8 to 40 experts of 5 neurons each, so that m = 5 k",
        "quick runs scatter, 1.53, 1.79, 1.53 and 1.86 at seeds 0, 11, 12 and 13",
    ),
    (
        "authors",
        "on MNIST, as the authors' code trains, the error grows by half from 8 to 40 experts of 5 neurons",
        "after all of 150 epochs the error is the same, .065 and .063, with either number",
    ),
):
    figure_6.claim(
        f"figure6/mnist-fall-{reading}",
        words,
        over_mean("test_error", reading=reading, experts=(40, 8)),
        _AS_PREDICTED,
        f"{_UNSTATED}; {reason}",
    )
