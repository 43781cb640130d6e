"""What every Lab stands on: sliders, a run on a thread, its records, and the notebook's output."""
