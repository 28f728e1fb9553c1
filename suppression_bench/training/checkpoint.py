"""Checkpoints: atomic, the last two kept, the newest valid one loaded, a changed run refused."""

import hashlib
import io
import os
from pathlib import Path

import torch

from generators.dataset import UserError

KEPT = 2


def save(folder: Path, step: int, state: dict, identity: dict) -> None:
    """Write one checkpoint; a kill at any moment leaves the ones before it whole.

    Arguments:
        folder: the cell's folder.
        step: number of steps done.
        state: tensors, numbers and texts in dicts and lists.
        identity: flat name -> value of everything that must not change before the run goes on.
    """
    buffer = io.BytesIO()
    torch.save({"step": step, "state": state, "identity": identity}, buffer)
    body = buffer.getvalue()
    partial = folder / f"checkpoint.{os.getpid()}.tmp"
    with open(partial, "wb") as file:
        file.write(hashlib.sha256(body).digest() + body)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(folder / f"checkpoint-{step:08d}.pt")
    for old in _newest_first(folder)[KEPT:]:
        old.unlink()


def load(folder: Path, identity: dict, device: torch.device | str = "cpu") -> dict | None:
    """The newest valid checkpoint ({step, state}), or None.

    Raises:
        UserError: the run has changed since (each differing field is named).
    """
    for path in _newest_first(folder):
        content = path.read_bytes()
        if hashlib.sha256(content[32:]).digest() != content[:32]:
            continue
        found = torch.load(io.BytesIO(content[32:]), map_location=device, weights_only=True)
        names = sorted(found["identity"].keys() | identity.keys())
        changed = [
            f"{name}: {found['identity'].get(name)!r} then, {identity.get(name)!r} now"
            for name in names
            if found["identity"].get(name) != identity.get(name)
        ]
        if changed:
            raise UserError(
                f"{path}: the run has changed since this checkpoint ({'; '.join(changed)}); "
                f"undo the change, or delete the folder {folder} to start the cell anew"
            )
        return found
    return None


def clear(folder: Path) -> None:
    """Remove the checkpoints of a finished run."""
    for path in folder.glob("checkpoint*"):
        path.unlink()


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("checkpoint-*.pt"), reverse=True)
