"""Verdict -> reward."""
