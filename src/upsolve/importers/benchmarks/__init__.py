"""Importers of benchmarks and data sets of functions, queries and repositories."""
