"""An importer, an objective, a component with its credit, a detector, an engine and a language for upsolve."""
