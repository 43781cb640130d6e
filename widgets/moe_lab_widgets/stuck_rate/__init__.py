"""The stuck-rate Lab (gridlock2019, section 4.3): how often EM gets stuck, from random and from spectral starts."""
