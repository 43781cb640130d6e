"""The gridlock Lab (gridlock2019): the spectral method beside joint EM."""
