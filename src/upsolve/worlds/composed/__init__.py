"""Robot tasks composed by a grammar: any number, reproducible from a seed, split by composition; ``source`` puts them together."""
