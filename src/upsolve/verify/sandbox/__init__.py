"""Run untrusted code: the confined server process, and its client on this side."""
