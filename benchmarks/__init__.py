"""Speed and memory, as ratios measured in one run; see README.md in this folder."""
