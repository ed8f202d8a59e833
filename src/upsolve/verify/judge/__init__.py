"""What decides about an attempt: plans of runs, comparison, verdicts."""
