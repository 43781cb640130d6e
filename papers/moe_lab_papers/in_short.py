"""Why statements do not replicate, a plain sentence for each cause; the claims have their own, longer reasons."""

from __future__ import annotations

from typing import NamedTuple


class Cause(NamedTuple):
    """A sentence that holds if all of its claims differ; a run in which one of them does not leaves it out."""

    sentence: str
    claims: tuple[str, ...]


CAUSES = (
    Cause(
        "Mixtures need an even smaller share of the CNN's samples than published (figure 4).",
        ("pmoe2023/figure4/joint-samples", "pmoe2023/figure4/mnist-joint-samples"),
    ),
    Cause(
        "More experts do not lower the error, whatever figure 6 keeps fixed, which the paper does not state.",
        ("pmoe2023/figure6/fall", "pmoe2023/figure6/mnist-fall-shared", "pmoe2023/figure6/mnist-fall-authors"),
    ),
    Cause(
        "A moving router exchanges patches, and the loss jumps, which the proof of lemma H.4 does not treat.",
        ("pmoe2023/lemmaH.4/predicted",),
    ),
    Cause(
        "Linear experts do better than published: the printed numbers are those of the authors' objective, not of "
        "algorithm 1.",
        (
            "chen2022/table1/setting1-linear",
            "chen2022/table1/setting2-linear",
            "chen2022/table3/setting3-linear",
            "chen2022/table3/setting4-linear",
            "chen2022/figure3/linear-stays",
        ),
    ),
    Cause(
        "A single cubic expert overfits, and does worse than published from fewer samples than the paper's 16,000.",
        ("chen2022/table1/setting1-single-nonlinear", "chen2022/table1/setting2-single-nonlinear"),
    ),
    Cause(
        "From a random start some unimportant experts grow as well (lemma 4.2).",
        ("pruning2024/lemma4.2/i-proficiency-random-start", "pruning2024/lemma4.2/ii-norm-change-random-start"),
    ),
    Cause(
        "Synthetic tokens do not separate the criteria of figures 9b and 9c.",
        ("pruning2024/figure9b/outperforms", "pruning2024/figure9c/outperforms"),
    ),
    Cause(
        "Buffers hold half as many tokens again as an equal share, and are computed whole, so that pruning saves more "
        "than published (figure 10).",
        ("pruning2024/figure10/e3-built-operations", "pruning2024/figure10/e3-time"),
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
        ("gridlock2019/table1/p0.3-regressor-fit", "gridlock2019/table1/p0.3-gating-fit"),
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
        "Where clusters are unequal, balancing costs accuracy (Shazeer et al.).",
        ("routers/shazeer2017/no-loss-much-worse-unequal",),
    ),
    Cause(
        "The loss is lowest at an uneven load, and its published weight does not balance here (Fedus et al.).",
        ("routers/switch2021/uniform-is-least", "routers/switch2021/published-weight"),
    ),
    Cause(
        "A shared expert (Dai et al.) and soft slots (Puigcerver et al.) gain nothing on these data.",
        ("routers/deepseekmoe2024/shared-expert", "routers/softmoe2024/ahead-of-both"),
    ),
)
