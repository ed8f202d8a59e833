"""Importers: files of other tools and sites -> records of an archive."""
