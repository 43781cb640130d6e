"""The gridlock Lab's stories."""

from __future__ import annotations

from moe_lab_widgets.lab import Story

STORIES: tuple[Story, ...] = ()
