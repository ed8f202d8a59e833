"""Tests in any form that people store -> test cases: the one place where an importer takes tests from text or values."""
