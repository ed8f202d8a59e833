"""Cleaning: checks of an archive, and copies of an archive without the findings (docs/cleaning.md)."""
