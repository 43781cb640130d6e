"""What every picture stands on: the style, the placement of labels, pages with panels, and plots of any run."""
