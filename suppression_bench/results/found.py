"""The records and plans below run folders: one record per cell, whichever folders hold it."""

from pathlib import Path

from generators import strict_json
from generators.dataset import UserError
from suppression_bench.results import record as records
from suppression_bench.results.identity import spec_faults


def records_below(folders: list[Path]) -> dict[str, dict]:
    """Every cell's record by its id, in the order in which they are met.

    Of a cell that is there several times, the first record that ended well counts; where none did, the first.

    Arguments:
        folders: run folders, cells' folders or folders of run folders; each is searched to any depth.

    Raises:
        UserError: no such folder, neither record nor plan in one, or a damaged one.
    """
    by_id: dict[str, dict] = {}
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise UserError(f"{folder}: no such folder; name one that `bench run` wrote")
        paths = sorted(folder.rglob(records.NAME))
        if not paths and next(folder.rglob(records.PLAN), None) is None:
            raise UserError(f"{folder}: no {records.NAME} in it; name a folder that `bench run` wrote")
        for path in paths:
            record = records.read(path)
            there = by_id.setdefault(record["id"], record)
            if there["run"]["status"] != "ok" and record["run"]["status"] == "ok":
                by_id[record["id"]] = record
    return by_id


def planned(folders: list[Path]) -> dict[str, dict]:
    """The spec of every planned cell by the cell's id.

    Raises:
        UserError: a damaged plan.
    """
    by_id: dict[str, dict] = {}
    for path in (path for folder in folders for path in sorted(Path(folder).rglob(records.PLAN))):
        by_id.update({entry["id"]: entry["spec"] for entry in read_plan(path)})
    return by_id


def read_plan(path: Path) -> list[dict]:
    """The cells that a run's folder is to hold: their ids, folders and specs.

    Raises:
        UserError: it is no strict JSON, or no plan.
    """
    plan = strict_json.loads(path.read_bytes(), str(path), floats=True)
    faults = [] if isinstance(plan, list) else [f"it must be a list, got {type(plan).__name__}"]
    for entry in [] if faults else plan:
        faults += strict_json.faults(entry, {"id": str, "folder": str, "spec": dict}, "an entry")
        faults += [] if faults else spec_faults(entry["spec"])
    if faults:
        raise UserError(
            f"{path}: not a plan of cells ({'; '.join(faults[:3])}); delete the file, and run the suite again or read "
            "the records alone"
        )
    return plan
