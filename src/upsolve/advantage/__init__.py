"""Rewards -> advantages: per attempt of a group, or per token of an attempt."""
