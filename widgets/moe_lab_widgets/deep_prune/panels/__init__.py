"""The panels of the deep pruning Lab's picture."""
