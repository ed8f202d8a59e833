"""Rewards -> advantages, of the attempts of one group or of the tokens of one attempt."""
