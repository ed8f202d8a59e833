"""Objectives: log-probabilities -> token losses, and their reduction to the loss of a step."""
