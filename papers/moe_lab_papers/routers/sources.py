"""Where the functions behind the measurements are, and what they share."""

from moe_lab_papers.ranges import Range, at_least

BALANCING = "moe_lab.specialization.balancing"
CHOICES = "moe_lab.patch_routing.routing_figures"
GATES = "moe_lab.recovery.gating"
MEASURES = "moe_lab_papers.routers.measures"

BETTER: Range = at_least(0.01)
"""A share of right answers is larger if it is by a point: what the trials here tell from nothing."""
