"""Verdicts -> rewards of attempts, and of their tokens."""
