"""The base of every Lab: sliders, a run on a thread, its records, and the notebook's output."""
