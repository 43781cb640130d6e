"""What every picture stands on: the style, the layout of labels, pages with panels, and plots of any run."""
