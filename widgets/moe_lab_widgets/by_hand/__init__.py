"""Routing by hand: a table of scores to edit, and where three kinds of routing send the patches."""
