"""The Labs: one file each, its stories beside it."""
