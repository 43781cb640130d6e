"""The names of the criteria, in the menu, in the picture and in sentences, and what each of them measures."""

from __future__ import annotations

from moe_lab.core import saliency
from moe_lab_widgets.engine.knobs import OWN
from moe_lab_widgets.labs.pruning_record import OFFERED, REVERSED

NAMES = {**saliency.NAMES, REVERSED: "reversed Δ", OWN: "my function"}
LABELS = tuple(NAMES[one] for one in (*OFFERED, OWN))
_MEANINGS = {
    "router-norm-change": "Δ, the growth of the router's norm",
    "random": "a random number",
    "importance-score": "share of tokens won × mean gate",
    "router-magnitude": "the router's norm after training",
    "neuron-magnitude": "mean norm of the neurons after training",
    "neuron-magnitude-change": "mean growth of the neurons' norms",
    "router-difference-norm": "the distance that the router moved",
    "token-count": "share of tokens received",
    REVERSED: "−Δ, so that the routers that grew go",
    OWN: "score(before, after)",
}
MEANINGS = tuple(_MEANINGS[one] for one in (*OFFERED, OWN))
