"""The panels of the phase-transition Lab's picture."""
