"""The panels of the landscape Lab's picture."""
