"""The panels of the specialisation Lab's picture."""
