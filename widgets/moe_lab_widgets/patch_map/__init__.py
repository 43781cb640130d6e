"""The patch-map Lab (pmoe2023): which patches of an image each expert of WRN-pMoE keeps, beside two controls."""
