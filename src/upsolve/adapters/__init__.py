"""Thin adapters to tools that people already run (docs/adapters.md): the peer's arguments become tasks and attempts, and verdicts become its rewards."""
