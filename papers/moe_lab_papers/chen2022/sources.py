"""Where the functions behind chen2022's measurements are."""

FIGURES = "moe_lab.specialization.figures"
PICTURE = "moe_lab.specialization.plots:picture"
MEASURES = "moe_lab_papers.chen2022.measures"
