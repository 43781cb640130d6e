"""The parts of a Lab's picture: a fixed background, live artists, sheets of boxes and words, tables, and pins."""
