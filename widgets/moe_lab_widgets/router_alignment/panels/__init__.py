"""The panels of the router-alignment Lab's picture."""
