"""Stands for Colab's own package, which tells moe_lab_widgets and anywidget where they run."""
