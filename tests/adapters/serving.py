"""The service in a process of its own."""

import contextlib
import os
import subprocess
import sys


@contextlib.contextmanager
def serving(folder, *words, **environment):
    """Yield the port of ``upsolve verify --serve``."""
    command = [sys.executable, "-m", "upsolve", "verify", "--serve", "--port", "0", "--workers", "2", *words]
    environment = {**os.environ, "UPSOLVE_CACHE": str(folder), **environment}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
    try:
        yield int(process.stdout.readline().split(":")[2].split()[0])
    finally:
        process.terminate()
        process.wait(300)
        process.stdout.close()
