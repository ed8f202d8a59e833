"""Run untrusted code: the confined server process and its side here."""
