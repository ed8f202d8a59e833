"""The command line. Arguments are parsed before torch and other slow modules are imported."""
