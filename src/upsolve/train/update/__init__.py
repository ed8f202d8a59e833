"""Scores, optimizer steps and the placement of the policy."""
