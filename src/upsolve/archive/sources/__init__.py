"""One small file a source; each has ``read(path)``, which yields rows."""
