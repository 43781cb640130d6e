"""Where the functions behind pmoe2023's measurements are."""

FIGURES = "moe_lab.patch_routing.figures"
PICTURE = "moe_lab.patch_routing.plots:picture"
MEASURES = "moe_lab_papers.pmoe2023.measures"
LEMMAS = "moe_lab_papers.pmoe2023.lemma_measures"
TUNING = "moe_lab_papers.pmoe2023.tuning"
