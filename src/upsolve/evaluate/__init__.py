"""Evaluation of a policy: pass@k on held-out tasks, with intervals and paired tests over tasks."""
