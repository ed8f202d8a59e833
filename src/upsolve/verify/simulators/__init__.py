"""Worlds that programs act in, and checks of what happened there."""
