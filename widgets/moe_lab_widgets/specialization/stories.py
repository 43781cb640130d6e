"""The specialisation Lab's stories. Numbers were measured with each story's own settings: medians of 6 trials."""

from __future__ import annotations

from moe_lab_widgets.engine.lab import Story

STORIES = (
    Story(
        "Experts divide the clusters",
        {"seed": 0},
        "Within 25 steps each expert at work has one cluster; in the end the entropy is 0.00 and 100 % are right. "
        "Linear experts on the same samples are right in 97.5 %, but mix the clusters: entropy 1.05 of at most 1.39.",
    ),
    Story(
        "Linear experts share everything",
        {"activation": "linear", "seed": 0},
        "The same two runs, now with the linear mixture in ink. In trial 1 three of eight experts take all four "
        "clusters in a mix; the median entropy is 1.05. The accuracy, 97.5 %, hides that; look at the tables.",
    ),
    Story(
        "One expert alone (M = 1)",
        {"experts": 1, "seed": 0},
        "Without a choice of experts nothing tells whose signal counts: 75.9 % with cubic filters, 76.1 % with linear "
        "ones. Theorem 4.1: no single expert of this kind can pass 87.5 % here.",
    ),
    Story(
        "Too few experts (M = 2)",
        {"experts": 2, "seed": 0},
        "Two experts for four clusters: each must serve several, so the entropy stays near 0.96 (it cannot fall under "
        "log 2 = 0.69). 84.4 % are right; linear experts, which share anyway, get 92.7 %.",
    ),
    Story(
        "Not one to spare (M = K = 4)",
        {"experts": 4, "seed": 0},
        "Every expert must find a cluster that no other has. Three of six trials do (100 %); the others end at 91 to "
        "96 %. With eight experts all six reach 99 %: spare experts are an insurance.",
    ),
    Story(
        "Twice the clusters (K = 8, M = 16)",
        {"clusters": 8, "experts": 16, "seed": 0},
        "Over 99 % right and an entropy of 0.01 again; two of six trials still mix some clusters (0.33, 0.39). Linear "
        "experts: 95.4 %, entropy 1.30 of at most 2.08.",
    ),
    Story(
        "The router never learns (η_r = 0)",
        {"router_learning_rate": 0.0, "seed": 0},
        "All scores stay 0. In training the noise r deals the samples out at random, so every expert learns a bit of "
        "everything; in the test expert 1 gets them all: 63.4 % (linear 76.0 %), entropy log 4.",
    ),
    Story(
        "Drowned in noise (σ_p = 4)",
        {"noise": 4.0, "seed": 0},
        "A noise patch is now longer than any signal. Experts learn noise by heart (97 % of the training samples "
        "right, 88.5 % of the test samples) and the entropy stays at 0.56. Linear: 82.2 %, 1.18.",
    ),
    Story(
        "Late collapse (σ_p = 2, γ up to 3, 800 steps)",
        {"noise": 2.0, "gamma": 3.0, "steps": 800, "seed": 2},
        "By step 150 the clusters are divided: 99.6 %. But steps keep their length, and from step 350 on trial after "
        "trial loses what it had: five of six; trial 1 falls from 99.4 % to 76 % in the ten steps before 660. It pays "
        "to stop at 300.",
    ),
    Story(
        "ReLU experts are nearly linear",
        {"activation": "relu", "seed": 0},
        "A ReLU is bent, but grows no faster than a line: entropy 0.83 against 1.05, accuracy 97.7 % against 97.5 %. "
        "It is the cube that rewards an expert for one strong signal.",
    ),
    Story(
        "Balancing the load (λ = .05)",
        {"load_balancing": 0.05, "seed": 0},
        "A loss for uneven loads lets linear experts specialise somewhat: entropy 0.44 instead of 1.05, accuracy 99.1 "
        "% instead of 97.5 %. Cubic experts hardly need it (0.02).",
    ),
    Story(
        "A router without noise (r = 0)",
        {"router_noise": 0.0, "seed": 0},
        "The proof needs noise on the scores, so that every expert gets samples at first. Here chance and eight "
        "experts do as well: 100 %, entropy 0.00. Trial 4 keeps a mix (98.1 %, 0.16).",
    ),
)
