"""Importers of contest problems with their tests and submissions."""
