"""Tests against stored attempts: grade the tests of an archive, grow them, shrink them."""
