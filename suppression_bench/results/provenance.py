"""Provenance of a number: the code, the versions and the machine."""

import hashlib
import platform
import resource
import subprocess
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from generators import catalog

PACKAGES = ("suppression_bench", "generators")


@lru_cache(maxsize=1)
def _sources_digest() -> str:
    digest = hashlib.sha256()
    for package in PACKAGES:
        root = catalog.folder_of(package)
        for path in sorted(root.rglob("*.py")):
            digest.update(f"{package}/{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


@lru_cache(maxsize=1)
def _commit() -> str | None:
    here = Path(__file__).parents[1]
    if not (here.parent / ".git").exists():
        return None
    answer = subprocess.run(["git", "-C", str(here), "rev-parse", "HEAD"], capture_output=True, text=True)
    return answer.stdout.strip() or None


def code(method: str) -> dict:
    """What ran: version, commit, digest of the packages and of the method's file (its name or path)."""
    return {
        "version": version("suppression-bench"),
        "commit": _commit(),
        "sources": _sources_digest(),
        "method": catalog.file_digest("suppression_bench.methods", method),
    }


def environment(device: torch.device) -> dict:
    """Where it ran."""
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "platform": f"{platform.system()}-{platform.machine()}",
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
    }


def peak_memory(device: torch.device) -> int:
    """The most memory used so far, in bytes: of the device, or of this process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
