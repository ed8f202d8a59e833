"""Importers of tables and JSON lines of any columns."""
