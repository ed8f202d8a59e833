"""Tasks, attempts and verdicts on disk."""
