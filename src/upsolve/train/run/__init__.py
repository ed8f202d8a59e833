"""The folder, memory, schedule, log and checkpoints of a run."""
