"""Why statements do not replicate, a plain sentence for each cause; the claims have their own, longer reasons."""

from __future__ import annotations

from typing import NamedTuple


class Cause(NamedTuple):
    """A sentence that holds if all of its claims differ; a run in which one of them does not leaves it out."""

    sentence: str
    claims: tuple[str, ...]


CAUSES = (
    Cause(
        "On MNIST mixtures need an even smaller share of the CNN's samples than published (figure 4).",
        ("pmoe2023/figure4/mnist-joint-samples", "pmoe2023/figure4/mnist-separate-samples"),
    ),
    Cause(
        "More experts do not lower the error of figure 6; the paper does not state what it keeps fixed.",
        ("pmoe2023/figure6/mnist-rise", "pmoe2023/figure6/mnist-fall-authors"),
    ),
    Cause(
        "Two proofs leave cases out: a moving router exchanges patches, and the loss jumps (lemma H.4); irrelevant "
        "patterns can cancel (lemma K.1).",
        ("pmoe2023/lemmaH.4/predicted", "pmoe2023/lemmaK.1/16-pattern-sets"),
    ),
    Cause(
        "Linear experts do better than published: the printed numbers are those of the authors' objective, not of "
        "algorithm 1 (table 1).",
        ("chen2022/table1/setting1-linear", "chen2022/table1/setting2-linear"),
    ),
    Cause(
        "A single cubic expert overfits, and does worse than published from fewer samples than the paper's 16,000.",
        (
            "chen2022/table1/setting2-single-nonlinear",
            "chen2022/table1/setting1-single-nonlinear-512",
        ),
    ),
    Cause(
        "Joint EM does as well as the spectral method with EM after it (figures 3 to 5).",
        (
            "gridlock2019/figure3/b-advantage",
            "gridlock2019/figure3/c-advantage",
            "gridlock2019/figure4/n1000-advantage",
            "gridlock2019/figure4/n5000-advantage",
            "gridlock2019/figure4/n10000-advantage",
            "gridlock2019/figure5/sigmoid-advantage",
            "gridlock2019/figure5/relu-advantage",
        ),
    ),
    Cause(
        "On the airfoil data the spectral method alone is worse than predicting the mean (figure 6).",
        ("gridlock2019/figure6/airfoil-spectral",),
    ),
    Cause(
        "Single trials with an outlier pull the mean fits of table 1 below the published ones.",
        (
            "gridlock2019/table1/p0.3-regressor-fit",
            "gridlock2019/table1/p0.3-gating-fit",
            "gridlock2019/table1/p0.9-gating-fit",
        ),
    ),
    Cause(
        "The moment of theorem 3 points along -w, not along w.",
        ("gridlock2019/theorem3/normalised-moment",),
    ),
    Cause(
        "The error falls without the plateau of figure 2a in most runs; the paper's settings are not printed.",
        ("gated2019/figure2/a-plateau",),
    ),
    Cause(
        "The factor of a gradient step does not vanish with the noise; that of EM does (theorem 3).",
        ("gated2019/theorem3/vanishing-factor",),
    ),
    Cause(
        "Eq. 5 does not hold for any W, and example 2 of appendix B has a term too many.",
        ("gated2019/section2/gru", "gated2019/appendix-b/example2"),
    ),
    Cause(
        "The balancing loss is lowest at an uneven load (Fedus et al.).",
        ("routers/switch2021/uniform-is-least",),
    ),
)
