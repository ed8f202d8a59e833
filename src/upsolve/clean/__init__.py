"""Cleaning: checks of an archive, and new archives without what they found (docs/cleaning.md)."""
