"""The panels of the patch-map Lab's picture."""
