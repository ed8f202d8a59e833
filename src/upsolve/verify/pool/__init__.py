"""Judge many attempts at once: workers, cache, Ray."""
