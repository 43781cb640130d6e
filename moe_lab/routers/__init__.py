"""Routing as pure functions of scores, for any room: who gets what (`choices`), how load is balanced (`balance`)."""
