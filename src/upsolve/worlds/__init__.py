"""Simulated worlds in which programs act, and checks of their traces."""
