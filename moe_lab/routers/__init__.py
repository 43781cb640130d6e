"""Routing as pure functions of scores, for any room: who gets what (`choices`), how load is balanced (`balance`).

The rooms of clusters and of patches use them. Pruning's layer and vision models route as their papers do.
"""
