"""Checks for the exercises of the notebooks.

Each takes the learner's own function and returns a Verdict, which displays itself at the end of a cell:

>>> from moe_lab import exercises
>>> print(exercises.check_delta(lambda delta_d, delta_r: 1 / (1 - max(delta_d, delta_r))).message)  # doctest: +ELLIPSIS
You forgot the squares. Your result for delta_d=0.0, delta_r=0.6 is 2.5. Change your function and run the cell again...

The first wrong result is told its mistake, another one where it is off and the formula, and only a third the right
result.
"""

from moe_lab.exercises.alignment import check_alignment, check_coverage, check_router_gradient
from moe_lab.exercises.assembling import Assembled, assemble
from moe_lab.exercises.balance import (
    check_importance_loss,
    check_moved_bias,
    check_router_z_loss,
    check_switch_loss,
)
from moe_lab.exercises.build import (
    check_chosen,
    check_expert_outputs,
    check_logistic_loss,
    check_mixture,
    check_router_scores,
    check_sgd_step,
    check_softmax_gates,
)
from moe_lab.exercises.choices import check_served, check_sigmoid_gates, check_slot_inputs
from moe_lab.exercises.hub import check_advantage, check_costs, check_rerouted_gates
from moe_lab.exercises.prediction import Prediction, predict
from moe_lab.exercises.pruning import (
    check_importance_score,
    check_kept_experts,
    check_norm_change,
    check_pruned_output,
)
from moe_lab.exercises.recovery import (
    check_e_step,
    check_fourth_projection,
    check_gates_in_gauge,
    check_gru_as_mixture,
    check_p3_coefficients,
    check_regressors_from,
    check_third_score,
)
from moe_lab.exercises.routing import (
    TABLE,
    TINY,
    check_gates,
    check_output,
    check_switch,
    check_token_choice,
    check_top_l,
)
from moe_lab.exercises.specialization import (
    check_dispatch_entropy,
    check_error_share,
    check_expert_step,
    check_mixture_output,
)
from moe_lab.exercises.start import check_mean_accuracy
from moe_lab.exercises.transitions import check_delta, check_l_star, check_sample_ratios, check_samples_needed
from moe_lab.exercises.verdict import Verdict
from moe_lab.exercises.vision import (
    check_gates_over_all,
    check_is_turned,
    check_kept_in_object,
    check_paired_gain,
)

__all__ = [
    "TABLE",
    "TINY",
    "Assembled",
    "Prediction",
    "Verdict",
    "assemble",
    "check_advantage",
    "check_alignment",
    "check_chosen",
    "check_costs",
    "check_coverage",
    "check_delta",
    "check_dispatch_entropy",
    "check_e_step",
    "check_error_share",
    "check_expert_outputs",
    "check_expert_step",
    "check_fourth_projection",
    "check_gates",
    "check_gates_in_gauge",
    "check_gates_over_all",
    "check_gru_as_mixture",
    "check_importance_loss",
    "check_importance_score",
    "check_is_turned",
    "check_kept_experts",
    "check_kept_in_object",
    "check_l_star",
    "check_logistic_loss",
    "check_mean_accuracy",
    "check_mixture",
    "check_mixture_output",
    "check_moved_bias",
    "check_norm_change",
    "check_output",
    "check_p3_coefficients",
    "check_paired_gain",
    "check_pruned_output",
    "check_regressors_from",
    "check_rerouted_gates",
    "check_router_gradient",
    "check_router_scores",
    "check_router_z_loss",
    "check_sample_ratios",
    "check_samples_needed",
    "check_served",
    "check_sgd_step",
    "check_sigmoid_gates",
    "check_slot_inputs",
    "check_softmax_gates",
    "check_switch",
    "check_switch_loss",
    "check_third_score",
    "check_token_choice",
    "check_top_l",
    "predict",
]
