"""From sources of groups to packed batches."""
