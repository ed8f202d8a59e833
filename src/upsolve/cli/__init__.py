"""The command line. It parses before it imports anything heavy."""
