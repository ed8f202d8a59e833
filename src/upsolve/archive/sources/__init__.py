"""One module per source; each has a function ``read(path)`` that yields rows."""
