"""What an archive can teach a model, and at what cost, told before anything is trained."""
