"""The viewer: tasks, attempts and verdicts of an archive, a run or a log, in a browser."""
