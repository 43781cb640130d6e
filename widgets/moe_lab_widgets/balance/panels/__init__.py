"""The panels of the balance Lab's picture."""
