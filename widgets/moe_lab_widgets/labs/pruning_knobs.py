"""The knobs of the pruning Lab, what they may be, and the code of the run that they describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moe_lab.config import Config, require
from moe_lab.pruning import PlantedStart, Run, TokenMoE, TokenTask
from moe_lab_widgets.drawing.words import CRITERION_NAMES
from moe_lab_widgets.engine.knobs import LabKnob, offer
from moe_lab_widgets.labs import pruning_record as of

NAMES = {**CRITERION_NAMES, of.REVERSED: "reversed Δ"}
"""The one name of each criterion, in the menu, in the picture and in sentences."""
MEANINGS = {
    "router-norm-change": "Δ, the growth of the router's norm",
    "random": "a random number",
    "importance-score": "share of tokens won × mean gate",
    "router-magnitude": "the router's norm after training",
    "neuron-magnitude": "mean norm of the neurons after training",
    "neuron-magnitude-change": "mean growth of the neurons' norms",
    "router-difference-norm": "the distance that the router moved",
    "token-count": "share of tokens received",
    of.REVERSED: "−Δ, so that the routers that grew go",
}
"""What each criterion measures."""

# ---- knobs ----


def _from_recipe(config: type[Config], name: str, **changes: Any) -> LabKnob:
    """A knob whose default depends on the checkpoint and the routing."""
    return offer(
        config,
        name,
        default=of.RECIPES[of.PLANTED][name],
        follows=lambda values: of.recipe(values["start"], values["routing"])[name],
        **changes,
    )


def _planted(values: Mapping[str, Any]) -> bool:
    return bool(values["start"] == of.PLANTED)


KNOBS = (
    LabKnob(
        name="rho",
        main=True,
        symbol="ρ",
        meaning="share pruned",
        default=0.8,
        low=0,
        high=1,
        slider=(0.0, 0.95, 0.05),
        view_only=True,
    ),
    LabKnob(
        name="criterion",
        main=True,
        meaning="prune by",
        default="router-norm-change",
        choices=tuple(of.OFFERED),
        words=NAMES,
        view_only=True,
    ),
    LabKnob(name="fine_tune", main=True, meaning="fine-tune the rest", default=False, view_only=True),
    _from_recipe(Run, "steps", meaning="training steps", slider=(10, 300, 10), main=True),
    offer(TokenMoE, "routing", meaning="who chooses", main=True),
    LabKnob(
        name="tuning_steps",
        symbol="T'",
        meaning="fine-tuning steps",
        default=60,
        low=0,
        slider=(10, 200, of.CHUNK),
        view_only=True,
    ),
    _from_recipe(TokenMoE, "router_learning_rate", symbol="η_r", meaning="routers' rate", slider=(0.005, 0.1, 0.005)),
    LabKnob(
        name="start",
        main=True,
        meaning="checkpoint",
        default=of.PLANTED,
        choices=(of.PLANTED, of.RANDOM, of.BRANCHES),
    ),
    offer(TokenMoE, "loss", meaning="gradient of"),
    _from_recipe(TokenMoE, "top", meaning="tokens each picks", slider=(1, 12, 1)),
    offer(TokenMoE, "experts", meaning="experts", slider=(4, 24, 2)),
    LabKnob(
        name="shown", meaning="trial on show", default=1, low=1, slider=(1, 10, 1), at_most="trials", view_only=True
    ),
    offer(PlantedStart, "others_norm", meaning="others' router norm", enabled_when=_planted),
    offer(PlantedStart, "important", meaning="important per class", enabled_when=_planted),
    _from_recipe(PlantedStart, "others_neurons", meaning="others' neurons", enabled_when=_planted),
    offer(TokenTask, "tokens", meaning="tokens"),
    offer(TokenTask, "patterns", meaning="patterns", slider=(100, 300, 20)),
    offer(Run, "trials", meaning="trials", slider=(1, 10, 1), far=1000),
)


def check(values: Mapping[str, Any]) -> None:
    """Checks all values.

    Raises:
      ValueError: a value or a combination breaks a rule.
    """
    of.run_of(values)
    check_view(values)


def check_view(values: Mapping[str, Any]) -> None:
    """Checks the view-only knobs.

    Raises:
      ValueError: rho, the fine-tuning steps or the trial on show are out of bounds.
    """
    rule = "rho, the share of experts pruned, must be at least 0 and less than 1"
    require(0 <= values["rho"] < 1, rule, rho=values["rho"])
    rule = f"tuning_steps (T') must be a positive multiple of {of.CHUNK}"
    require(values["tuning_steps"] > 0 and values["tuning_steps"] % of.CHUNK == 0, rule, T=values["tuning_steps"])
    require(values["shown"] >= 1, "shown, the trial on show, must be at least 1", shown=values["shown"])
