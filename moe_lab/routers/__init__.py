"""Routing and balancing variants as small pure functions with their sources."""
