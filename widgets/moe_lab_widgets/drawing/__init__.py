"""The parts of a Lab's picture: a fixed background, live artists, tables of pixels, pins and words."""
