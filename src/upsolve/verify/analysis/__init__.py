"""Code -> findings with spans, without running it."""
