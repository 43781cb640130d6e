"""What every Lab's picture is drawn with: a still background, live artists, tables of pixels and words."""
