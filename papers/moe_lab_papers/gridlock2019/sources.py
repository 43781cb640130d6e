"""Where the functions behind gridlock2019's measurements are."""

FIGURES = "moe_lab.recovery.gridlock.figures"
PICTURE = "moe_lab.recovery.gridlock.plots:picture"
MEASURES = "moe_lab_papers.gridlock2019.measures"
SHARED = "moe_lab_papers.recovery_measures"
