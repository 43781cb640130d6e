"""The panels of the stuck-rate Lab's picture."""
