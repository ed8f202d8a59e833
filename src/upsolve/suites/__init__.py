"""Tests against stored attempts: how strong the tests of an archive are, and the fewest that suffice."""
