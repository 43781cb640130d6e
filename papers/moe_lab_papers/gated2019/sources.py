"""Where the functions behind gated2019's measurements are."""

FIGURES = "moe_lab.recovery.landscape.figures"
PICTURE = "moe_lab.recovery.landscape.plots:picture"
MEASURES = "moe_lab_papers.gated2019.measures"
SHARED = "moe_lab_papers.recovery_measures"
