"""From samples to an answer: outputs of candidates, evidence about them, and the choice among them."""
