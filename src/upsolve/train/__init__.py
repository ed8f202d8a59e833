"""Training: groups -> packed optimizer steps -> a trained policy."""
