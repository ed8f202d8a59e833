"""Static analysis: code -> findings with spans."""
