"""Batched decoding: from prompts to sampled tokens."""
