"""The phase-transition Lab (pmoe2023, figure 5): the samples that training needs for every l."""
