"""Where the functions behind pruning2024's measurements are."""

FIGURES = "moe_lab.pruning.figures"
PICTURE = "moe_lab.pruning.plots:picture"
MEASURES = "moe_lab_papers.pruning2024.measures"
