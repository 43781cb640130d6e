"""The machines on which each target has held."""

from __future__ import annotations

import re
from collections.abc import Mapping

EPYC = "AMD EPYC, family 25, model 1"
XEON = "Intel Xeon, family 6, model 167"
HELD: Mapping[str, str] = {
    r"joint_step_speedup": f"{EPYC}; {XEON}",
    r"link_.*_over_free": EPYC,
    r"live_joint_over_import|import_(moe_lab|patch_routing)|first_picture": XEON,
    r"phase_map_(memory|speedup)": XEON,
    r"spectral_over_textbook|joint_em_over_loop|third_moment_peak": XEON,
    r"(expert|token)_choice_step_over_dense|pruning_rho_of_training|pruned_(expert|token)_choice_time": XEON,
    r"frames_(PhaseTransition|Specialization|Pruning|StuckRate|PatchMap|RoutingChoices)Lab_over_png": XEON,
    r"frames_.*_(bytes|run)": XEON,
    r"patches_saving_of_ideal|vmoe_table_over_evaluations|vmoe_b16_2_over_8_experts": XEON,
}
"""By a pattern of the figures' names."""


def held_on(figure: str) -> str:
    """Returns the machines on which a figure's target has held; "none yet" where none is known."""
    found = [machines for pattern, machines in HELD.items() if re.fullmatch(pattern, figure)]
    return found[0] if found else "none yet"
