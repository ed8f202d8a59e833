"""Reads the history of a repository: commits, the modules that a file needs, and the tests of its test files."""
