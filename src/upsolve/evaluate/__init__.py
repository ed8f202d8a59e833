"""How good a policy is, and how sure we are."""
