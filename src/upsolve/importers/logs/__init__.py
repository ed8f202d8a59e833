"""Importers of logs: test runs, CI, samples and rollouts of other tools."""
