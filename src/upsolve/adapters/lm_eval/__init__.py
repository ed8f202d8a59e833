"""Tasks of lm-evaluation-harness: ``lm_eval --include_path`` this folder."""
