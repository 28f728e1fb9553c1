"""A process for foreign code: few rights, no secrets in its environment, limits on time, memory and files. No prison."""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from generators import catalog

LARGEST_FILE = 20 * 2**30  # bytes
MOST_FILES = 4096


@dataclass(frozen=True)
class Limits:
    """hours: of wall clock for the whole process; memory: address space in GiB, 0 for none (CUDA needs more than it uses)."""

    hours: float = 6.0
    memory: float = 32.0


def environment(home: Path, data_root: Path, threads: int) -> dict[str, str]:
    """The whole environment of the process: nothing of the caller's is handed down but where programs lie."""
    packages = {str(catalog.folder_of(name).parent) for name in ("suppression_bench", "generators")}
    return {
        "PATH": os.defpath, "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8", "MPLCONFIGDIR": str(home),
        "PYTHONPATH": os.pathsep.join(sorted(packages)), "PYTHONNOUSERSITE": "1", "SUPPRESSION_BENCH_CACHE": str(data_root),
        "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE",
    }  # fmt: skip


def no_network() -> list[str]:
    """What to put before a command so that it has no network, or nothing where the system does not let us."""
    program = shutil.which("unshare")
    if program is None:
        return []
    prefix = [program, "--user", "--map-current-user", "--net"]
    tried = subprocess.run([*prefix, "true"], capture_output=True, stdin=subprocess.DEVNULL)
    return prefix if tried.returncode == 0 else []


def run(
    arguments: list[str], place: Path, env: dict[str, str], limits: Limits, log: Path, prefix: list[str]
) -> int | None:
    """Run `bench ARGUMENTS` in a folder and return its exit code, or None where the time was over.

    Arguments:
        arguments: of `bench`.
        place: the working folder; Python does not import from it.
        env: the whole environment.
        limits: on the process.
        log: where what it prints is appended.
        prefix: from `no_network`.
    """
    command = [*prefix, sys.executable, "-P", "-m", "suppression_bench.cli", *arguments]
    with open(log, "ab") as output:
        process = subprocess.Popen(
            command, cwd=place, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            preexec_fn=lambda: _limit(limits),
        )  # fmt: skip
        try:
            return process.wait(timeout=limits.hours * 3600)
        except subprocess.TimeoutExpired:
            return None
        finally:
            # Its workers too, whatever ended the wait; they have no other parent than this session of theirs.
            _end(process)


def _limit(limits: Limits) -> None:
    if limits.memory:
        most = int(limits.memory * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    files = min(MOST_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))


def _end(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):  # all have ended by themselves
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
