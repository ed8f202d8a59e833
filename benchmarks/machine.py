"""Description of the machine on which a measurement was made."""

import json
import os
import platform
from importlib.metadata import version
from pathlib import Path

__all__ = ["machine", "publish"]


def machine():
    """Return processor, cores, memory, GPU and versions."""
    import torch

    import upsolve

    facts = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    names = [line.partition(":")[2].strip() for line in facts.splitlines() if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "gpu": torch.cuda.get_device_name(0) if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "upsolve": upsolve.__version__,
        **{name: version(name) for name in ("torch", "transformers")},
    }


def publish(report, file):
    """Print a report as JSON, and write it to a file, unless that is None."""
    text = json.dumps(report, indent=1)
    print(text)
    if file:
        file.write_text(text + "\n")
