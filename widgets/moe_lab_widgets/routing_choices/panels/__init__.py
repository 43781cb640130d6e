"""The panels of the routing-choices Lab's picture."""
