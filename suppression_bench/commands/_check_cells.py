"""Cells that a check needs: a suite's settings under other seeds, run and handed down as records."""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from generators import executor
from generators.dataset import UserError
from generators.files import dumps_json


class SuiteCells:
    """The settings of a suite, prepared once (their data are there), run under any seeds.

    Arguments:
        suite: name or .yaml file.
        request: settings over the suite's, and its tier (a `suite.Request`).
        device: auto, cpu or cuda.
        workers: cells at once, or None for one per core (one on a GPU).
        threads: of torch in each worker, or None for the cores shared out.

    Raises:
        UserError: every fault of the suite at once.
    """

    def __init__(self, suite: str, request, device: str, workers: int | None, threads: int | None):
        # Read when torch is loaded, here or in a worker: threads that spin while they wait cost a busy machine dearly.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        from suppression_bench import cell, runner
        from suppression_bench.results.observed import settings_digest
        from suppression_bench.suite import cells_of_suite

        self.device = cell.device_of(device)
        self.workers = workers or (1 if self.device.type == "cuda" else executor.cores())
        self.threads = threads
        found = {}
        for one in cells_of_suite(suite, request):
            key = [{name: part for name, part in one.spec.items() if name != "seed"}, one.dataset]
            found.setdefault(dumps_json(key), one)
        cells = list(found.values())
        runner.prepare(cells, executor.cores(), say)
        self.cells = {settings_digest(one.spec): one for one in cells}
        self.suite = cells[0].spec["suite"]

    def own_seeds(self) -> list[int]:
        """The seed of each setting in the suite's own file: the first it names."""
        return sorted({one.spec["seed"] for one in self.cells.values()})

    def run(self, seeds: Sequence[int], out: Path, only: set[str] | None = None) -> list[tuple[dict, Path]]:
        """Records and cell folders of all settings (or those of `only`) under these seeds.

        Raises:
            UserError: a record in `out` that another version of the program wrote.
        """
        from suppression_bench import provenance, runner

        chosen = [one for key, one in self.cells.items() if only is None or key in only]
        found = [replace(one, spec={**one.spec, "seed": seed}) for one in chosen for seed in seeds]
        workers = min(self.workers, len(found))
        threads = self.threads or max(1, executor.cores() // workers)
        say(f"{len(found)} cells on {self.device} ({workers} at once) into {out}")
        made = runner.run_cells(
            found, out, device=self.device, workers=workers, threads=threads, watch=lambda *_: None, say=say
        )
        now = {one.references["method"]: provenance.code(one.references["method"])["sources"] for one in found}
        pairs = list(zip(found, made, strict=True))
        old = [one.label for one, record in pairs if record["code"]["sources"] != now[one.references["method"]]]
        if old:
            raise UserError(
                f"{out}: {len(old)} of its cells were run by another version of the program ({old[0]}, ...): they say "
                "nothing of this one; name another folder with --runs"
            )
        return [(record, out / "cells" / one.folder_name) for one, record in pairs]


def version() -> str:
    """Eight digits of the program's digest: cells of another version never lie in the same folder."""
    from suppression_bench import provenance

    return provenance.code("untrained")["sources"][:8]


def say(line: str) -> None:
    """Progress goes beside the report, not into it."""
    print(line, file=sys.stderr, flush=True)
