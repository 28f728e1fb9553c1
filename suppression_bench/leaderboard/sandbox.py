"""Runs an untrusted method file in a sandbox (bubblewrap): read-only system, no network, limited time and memory.

Where bubblewrap cannot make one, a container without a network does: what it may see and write is then what the
container was given. A process without either is for one's own code only.
"""

import contextlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from generators import catalog
from generators.dataset import UserError

Kind = Literal["bubblewrap", "container", "package", "unsandboxed"]
LARGEST_FILE = 20 * 2**30  # bytes
LARGEST_TMP = 2**30  # bytes of /tmp, which lies in memory
MOST_FILES = 4096
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/alternatives")
GPU = ("/sys", *(f"/dev/nvidia{name}" for name in ("", "ctl", "-uvm", "-uvm-tools", "-modeset", *map(str, range(16)))))
CONTAINER = ("/.dockerenv", "/run/.containerenv")
REMEDY = (
    "install it (apt install bubblewrap), let it make namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0), "
    "or use a container without a network; for code of your own there is --i-trust-this-code"
)


@dataclass(frozen=True)
class Limits:
    """hours: of wall clock for all; memory: address space of each process in GiB, 0 for none (CUDA needs more than it uses)."""

    hours: float = 6.0
    memory: float = 32.0


def choose(has_own_files: bool, trusted: bool = False) -> Kind:
    """What the code of a submission runs in.

    Arguments:
        has_own_files: whether it brings code at all; the package's methods are no foreign code.
        trusted: whether the user vouches for it.

    Raises:
        UserError: foreign code and neither bubblewrap nor a container without a network; exit code 4.
    """
    if not (reason := fault()):
        return "bubblewrap"
    if _is_closed_container():
        return "container"
    if not has_own_files:
        return "package"
    if trusted:
        return "unsandboxed"
    raise UserError(f"no sandbox for foreign code: {reason}; {REMEDY}", exit_code=4)


def fault() -> str:
    """Why bubblewrap cannot make a sandbox here, "" where it can: `true` is run in one."""
    if shutil.which("bwrap") is None:
        return "bubblewrap (bwrap) is not installed"
    tried = subprocess.run([*_bubblewrap(Path("/tmp"), ()), "true"], capture_output=True, text=True)
    return "" if tried.returncode == 0 else f"bubblewrap fails ({' '.join(tried.stderr.split())[:200]})"


def _is_closed_container() -> bool:
    interfaces = {name for _, name in socket.if_nameindex()}
    return any(Path(mark).exists() for mark in CONTAINER) and interfaces <= {"lo"}


def _bubblewrap(folder: Path, readable: Iterable[Path], gpu: bool = False) -> list[str]:
    """The command's beginning: `folder` may be written, the system, the program and `readable` may be read, nothing else."""
    program = [sys.prefix, sys.base_prefix, *(catalog.folder_of(name) for name in ("suppression_bench", "generators"))]
    command = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    for path in map(str, (*SYSTEM, *program, *readable)):
        command += ["--ro-bind-try", path, path]
    command += ["--proc", "/proc", "--dev", "/dev", "--size", str(LARGEST_TMP), "--tmpfs", "/tmp"]
    for path in GPU if gpu else ():
        command += ["--dev-bind-try", path, path]
    # Last: the folder may lie below a path that was covered above; what is not bound is read-only too.
    return [*command, "--bind", str(folder), str(folder), "--remount-ro", "/", "--chdir", str(folder), "--"]


def run(
    arguments: list[str],
    folder: Path,
    env: dict[str, str],
    limits: Limits,
    kind: Kind,
    readable: Iterable[Path] = (),
    gpu: bool = False,
) -> int | None:
    """Run `bench ARGUMENTS` in a sandbox and return its exit code, or None where the time was over.

    Arguments:
        arguments: of `bench`.
        folder: the working folder, the only one that may be written; `log.txt` in it gets what is printed.
        env: the whole environment.
        limits: on the process.
        kind: from `choose`.
        readable: files and folders beside the system that may be read.
        gpu: whether NVIDIA's devices are shown to it.
    """
    folder = folder.absolute()
    prefix = _bubblewrap(folder, readable, gpu) if kind == "bubblewrap" else []
    command = [*prefix, sys.executable, "-P", "-m", "suppression_bench.cli", *arguments]
    with open(folder / "log.txt", "ab") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=lambda: _limit(limits),
        )
        try:
            return process.wait(timeout=limits.hours * 3600)
        except subprocess.TimeoutExpired:
            return None
        finally:
            # Its workers too, whatever ended the wait: a sandbox ends with its first process.
            with contextlib.suppress(ProcessLookupError):  # all have ended by themselves
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def environment(folder: Path, data_root: Path, threads: int) -> dict[str, str]:
    """The whole environment of the process: nothing of the caller's is handed down but where programs lie.

    Arguments:
        folder: a home that it may write into.
        data_root: where its data are.
        threads: of torch and OpenMP.
    """
    packages = {str(catalog.folder_of(name).parent) for name in ("suppression_bench", "generators")}
    return {
        **dict.fromkeys(("HOME", "TMPDIR", "MPLCONFIGDIR"), str(folder)),
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join(sorted(packages)),
        "PYTHONNOUSERSITE": "1",
        "SUPPRESSION_BENCH_CACHE": str(data_root),
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",
    }


def _limit(limits: Limits) -> None:
    if limits.memory:
        most = int(limits.memory * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    files = min(MOST_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
