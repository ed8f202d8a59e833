"""The model and its tokens."""
