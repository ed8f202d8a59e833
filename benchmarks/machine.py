"""Description of the machine on which a measurement was made."""

import json
import os
import platform
from importlib.metadata import version
from pathlib import Path

__all__ = ["machine", "publish"]


INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
"""Extensions of the processor that decide how fast matrices are multiplied."""


def machine():
    """Return processor, its extensions, cores, memory, GPU and versions."""
    import torch

    import upsolve

    facts = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    names = [line.partition(":")[2].strip() for line in facts.splitlines() if line.startswith("model name")]
    flags = {flag for line in facts.splitlines() if line.startswith("flags") for flag in line.split()}
    return {
        "processor": names[0] if names else platform.machine(),
        "instructions": [flag for flag in INSTRUCTIONS if flag in flags],
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
