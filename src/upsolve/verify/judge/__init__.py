"""Judge of attempts: plans of sandbox runs, comparison of results, verdicts."""
