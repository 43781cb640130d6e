"""The knobs of the pruning Lab, what they may be, and the code of the run that they describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moe_lab.core.config import Config, require
from moe_lab.pruning import PlantedStart, TokenMoE, TokenRun, TokenTask
from moe_lab_widgets.engine.knobs import ANOTHER_TRIAL, MORE_TRIALS, LabKnob, offer
from moe_lab_widgets.labs import pruning_record as of
from moe_lab_widgets.labs.pruning_names import NAMES
from moe_lab_widgets.labs.pruning_record import CHUNK, PLANTED

# ---- knobs ----


def _from_recipe(config: type[Config], name: str, **changes: Any) -> LabKnob:
    """A knob whose default depends on the checkpoint and the routing."""
    return offer(
        config,
        name,
        default=of.RECIPES[PLANTED][name],
        follows=lambda values: of.recipe(values["start"], values["routing"])[name],
        **changes,
    )


def _planted(values: Mapping[str, Any]) -> bool:
    return bool(values["start"] == PLANTED)


KNOBS = (
    LabKnob(name="rho", main=True, symbol="ρ", meaning="share pruned", default=0.8, low=0, high=1,
            slider=(0.0, 0.95, 0.05), view_only=True,
            effect="More experts are pruned. Nothing is trained again."),
    LabKnob(name="criterion", main=True, meaning="prune by", default="router-norm-change", choices=tuple(of.OFFERED),
            words=NAMES, view_only=True,
            effect="The experts with the smallest scores are pruned. Nothing is trained again."),
    LabKnob(name="fine_tune", main=True, meaning="fine-tune what is left", default=False, view_only=True,
            effect="Trains the experts that stay for T' further steps."),
    offer(TokenMoE, "routing", main=True, meaning="who chooses",
          words={of.EXPERTS_CHOOSE: "experts choose tokens", of.TOKENS_CHOOSE: "tokens choose experts"},
          effect="Each expert keeps its l best tokens, or each token visits its l best experts."),
    _from_recipe(TokenMoE, "top", main=True, meaning="picks each makes", slider=(1, 12, 1),
                 effect="More tokens for each expert, or more experts for each token."),
    _from_recipe(TokenRun, "steps", main=True, meaning="training steps", slider=(10, 300, 10),
                 effect="A longer training, in which routers that learn grow further."),
    offer(TokenTask, "tokens", main=True, meaning="tokens per sample",
          effect="The one token that decides hides among more others."),
    offer(TokenMoE, "experts", main=True, meaning="experts", slider=(4, 24, 2),
          effect="More experts that can go; as few as before are important."),
    LabKnob(name="tuning_steps", symbol="T'", meaning="fine-tuning steps", default=60, low=0, slider=(10, 200, CHUNK),
            view_only=True,
            effect="Gives the experts that are left more time to recover."),
    LabKnob(name="start", meaning="checkpoint", default=PLANTED, choices=(PLANTED, of.RANDOM, of.BRANCHES),
            words={PLANTED: "planted", of.RANDOM: "random weights", of.BRANCHES: "pre-trained branches"},
            effect="Training begins with it. In the planted one we know which experts matter."),
    _from_recipe(TokenMoE, "router_learning_rate", symbol="η_r", meaning="routers' learning rate",
                 slider=(0.005, 0.1, 0.005),
                 effect="Routers move faster, so that their norms change more."),
    offer(TokenMoE, "loss", meaning="loss", words={"linear": "1 − y f (the paper's)", "hinge": "hinge loss"},
          effect="The hinge loss learns no more from a sample that is right by a margin; 1 − y f goes on."),
    LabKnob(name="shown", meaning="trial on show", default=1, low=1, slider=(1, 10, 1), at_most="trials",
            view_only=True, effect=ANOTHER_TRIAL,
            applies="only with more than one trial"),
    offer(PlantedStart, "others_norm", meaning="norm of unimportant routers", enabled_when=_planted,
          effect="Longer routers of the experts that do not matter.", applies="only to the planted checkpoint"),
    offer(PlantedStart, "important", meaning="important experts per class", enabled_when=_planted,
          effect="More experts carry each class, and fewer are superfluous.", applies="only to the planted checkpoint"),
    _from_recipe(PlantedStart, "others_neurons", meaning="size of unimportant neurons", enabled_when=_planted,
                 effect="Larger neurons of the experts that do not matter.", applies="only to the planted checkpoint"),
    offer(TokenTask, "patterns", meaning="patterns", slider=(100, 300, 20),
          effect="More kinds of tokens, of which two decide."),
    offer(TokenRun, "trials", meaning="trials", slider=(1, 10, 1), far=1000, effect=MORE_TRIALS),
)  # fmt: skip


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
    rule = f"tuning_steps (T') must be a positive multiple of {CHUNK}"
    require(values["tuning_steps"] > 0 and values["tuning_steps"] % CHUNK == 0, rule, T=values["tuning_steps"])
    require(values["shown"] >= 1, "shown, the trial on show, must be at least 1", shown=values["shown"])
