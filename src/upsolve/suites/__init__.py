"""Tests against stored attempts: grade, grow and shrink the tests of an archive."""
