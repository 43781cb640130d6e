"""How pictures travel: as display lists that the page replays on a canvas, or as PNG where it cannot."""
