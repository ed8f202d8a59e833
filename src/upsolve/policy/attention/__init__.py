"""Attention over packed rows: one module for each way to compute it."""
