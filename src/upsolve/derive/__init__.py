"""Tasks made from the attempts at other tasks: to repair, to test, to predict, to complete."""
