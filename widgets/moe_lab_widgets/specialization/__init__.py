"""The specialisation Lab (chen2022): nonlinear experts divide the clusters, linear experts share them."""
