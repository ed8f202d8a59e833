"""Programs of the sandbox, sent into it as text (``process.bundle``); they import each other by plain names and the standard library alone."""
