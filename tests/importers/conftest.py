import json

import pytest

from upsolve.archive.store import Archive


@pytest.fixture
def archive(tmp_path):
    """An empty archive."""
    return Archive.create(tmp_path / "archive")


@pytest.fixture(scope="session")
def lines():
    """Writes rows, or lines as they are, to a file and returns it: ``lines(file, rows)``."""

    def write(file, rows):
        file.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
        return file

    return write
