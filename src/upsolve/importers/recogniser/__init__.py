"""Tests in any form that people store -> test cases. All importers take tests from text or values here."""
