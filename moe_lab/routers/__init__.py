"""Routers as pure functions: how load is balanced (`balance`), from scores of any room that routes."""
