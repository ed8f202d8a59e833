"""The policy: models, tokenizers, prompts, attention over packed rows, and sampling."""
