"""The built-in formats, a small file for each kind of reader."""
