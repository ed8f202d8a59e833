"""An import in a process of its own that is killed."""

import json
import subprocess
import sys
import time

from upsolve.archive.schema import TABLES

SCRIPT = """
import json, sys
from upsolve.importers import importing
from upsolve.importers.ingest import ingest
from upsolve.archive.store import Archive

importing.BATCH = 40
if __name__ == "__main__":
    source, path, archive, workers, options = sys.argv[1:]
    ingest(Archive.create(archive), source, path, workers=int(workers), max_rejected=1, **json.loads(options))
"""


def import_words(folder, source, path, archive, *, workers=1, setup="", options=None):
    """The command of an import in small batches."""
    (folder / "import.py").write_text(SCRIPT.replace("if __name__", f"{setup}\nif __name__"))
    return [sys.executable, *map(str, (folder / "import.py", source, path, archive, workers, json.dumps(options or {})))]


def stored(archive):
    return {name: archive.table(name).to_pylist() for name in TABLES}


def kill_after_parts(words, folder, parts):
    """Start an import, and kill its first process when the archive has this many parts; False if it ended before."""
    with subprocess.Popen(words) as process:
        while process.poll() is None:
            if len([*folder.glob("*/*.parquet")]) >= parts:
                process.kill()
                return True
            time.sleep(0.001)
    return False
