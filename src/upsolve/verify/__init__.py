"""Task + Attempt -> Verdict."""
