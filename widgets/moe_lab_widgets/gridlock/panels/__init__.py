"""The panels of the gridlock Lab's picture."""
