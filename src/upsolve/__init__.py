"""upsolve: post-train code models on attempts that have already been judged."""

__all__ = ["__version__"]

__version__ = "0.1.0"
