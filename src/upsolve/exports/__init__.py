"""Archives written as the data sets and sample files of other tools."""
