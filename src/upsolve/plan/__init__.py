"""Plans: whether training a model on an archive will help, and what it costs, estimated before training."""
