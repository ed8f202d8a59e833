"""Log-probabilities -> a sum to minimise."""
