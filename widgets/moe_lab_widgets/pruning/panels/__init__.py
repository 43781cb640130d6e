"""The panels of the pruning Lab's picture."""
