"""Groups -> a better policy."""
