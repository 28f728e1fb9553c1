"""Records as data frames: one long line per probe, and means over seeds with the untrained floor."""

import hashlib
from pathlib import Path

import pandas

from generators import strict_json
from generators.dataset import is_source
from suppression_bench.results import record as records
from suppression_bench.results.found import planned, records_below

BITS = "bits"
GROUP = ["dataset", "pictures", "variant", "strength_name"]  # what one table or figure is about
KINDS = ["lbfgs", "online", "sgd"]
COLUMNS = [
    "dataset", "pictures", "variant", "digest", "method", "setting", "encoder", "recipe", "strength_name", "strength",
    "batch_size", "temperature", "seed", "status", "error", "probe", "layer", "feature", "accuracy", "train_accuracy",
    "n", "chance", "majority", "l2", "converged", "collapsed", "absent", "seconds", "steps", "device", "torch",
    "version", "commit", "id",
]  # fmt: skip


def long_table(folders: list[Path]) -> pandas.DataFrame:
    """One line per cell, probe, layer and feature; a cell without probes (failed, diverged, missing) has one line.

    A cell that several folders hold counts once, by the first record that ended well.

    Arguments:
        folders: run folders, cells' folders or folders of run folders; each is searched to any depth.

    Raises:
        UserError: no record below a folder, or a damaged one.
    """
    made = records_below(folders)
    rows = [row for record in made.values() for row in _rows(record)]
    rows += [
        {**_cell_fields(spec), "status": "missing", "id": key}
        for key, spec in planned(folders).items()
        if key not in made
    ]
    _tell_apart(rows)
    return pandas.DataFrame(rows, columns=COLUMNS)


def _cell_fields(spec: dict) -> dict:
    varied = [f"{key.partition('.')[2]}={_show(value)}" for key, value in spec["varied"].items()]
    strength = spec["strength"] or {"key": "", "value": None}
    data = spec["data"].get("options") or {}
    others = {
        key: value for key, value in data.items() if key != strength["key"] and not is_source(key) and value is not None
    }
    others |= {"seed": spec["data"]["seed"]} if spec["data"]["seed"] else {}
    return {
        "dataset": spec["data"]["dataset"],
        "pictures": "+".join(data[key] for key in sorted(data) if is_source(key) and data[key]),
        "variant": " ".join(f"{key}={_show(value)}" for key, value in others.items()),
        "digest": spec["data"].get("digest", ""),
        "method": spec["method"]["name"],
        "setting": " ".join(varied),
        "encoder": spec["encoder"]["name"],
        "recipe": spec["recipe"],
        "setup": _setup(spec),
        "strength_name": strength["key"],
        "strength": strength_value(strength["value"]),
        "batch_size": spec["train"].get("batch_size"),
        "temperature": _temperature(spec),
        "seed": spec["seed"],
    }


def strength_value(value):
    """A strength as tables have it: "20+80" for [20, 80], "" for none."""
    # A text where there is none: pandas would make 5 of [5, None] a 5.0.
    return "" if value is None else _show(value) if isinstance(value, list) else value


def _temperature(spec: dict) -> float | None:
    # The loss's own, or that of a method which needs none of its losses (as swav).
    parts = (spec["loss"], spec["method"])
    return next((part["options"]["temperature"] for part in parts if part and "temperature" in part["options"]), None)


def _setup(spec: dict) -> str:
    # Everything that can move a number but the data and the seed: cells that differ here are no further seeds.
    parts = {key: spec[key] for key in spec if key not in ("suite", "data", "strength", "varied", "seed")}
    parts["train"] = {key: value for key, value in spec["train"].items() if key != "checkpoint_seconds"}
    parts["probe"] = {key: value for key, value in spec["probe"].items() if key != "block_size"}
    return hashlib.sha256(strict_json.dumps(parts).encode()).hexdigest()


def _tell_apart(rows: list[dict]) -> None:
    # Cells of one title but other settings: the title gets what tells them apart, so that nothing is pooled or hidden.
    titles: dict[tuple, list[dict]] = {}
    for row in rows:
        titles.setdefault((*(row[key] for key in GROUP), row["method"], row["setting"]), []).append(row)
    for own in titles.values():
        setups = {row["setup"]: row for row in own}
        differing = [key for key in ("recipe", "encoder") if len({row[key] for row in own}) > 1]
        labels = {setup: " ".join(f"{key}={row[key]}" for key in differing) for setup, row in setups.items()}
        if len(set(labels.values())) < len(labels):
            labels = {setup: f"{label} #{setup[:6]}".strip() for setup, label in labels.items()}
        for row in own if len(setups) > 1 else []:
            row["setting"] = f"{row['setting']} {labels[row['setup']]}".strip()


def _show(value) -> str:
    return "+".join(map(str, value)) if isinstance(value, list) else str(value)


def _rows(record: dict) -> list[dict]:
    run = record["run"]
    common = {
        **_cell_fields(record["spec"]),
        "status": run["status"], "error": run["error"], "seconds": run["seconds"], "steps": run["steps"],
        "device": record["environment"]["device"], "torch": record["environment"]["torch"],
        "version": record["code"]["version"], "commit": record["code"]["commit"], "id": record["id"],
    }  # fmt: skip
    return [
        {
            **common,
            **{key: probe[key] for key in ("probe", "layer", "feature", "n", "chance", "majority", "l2", "converged")},
            "accuracy": records.accuracy(probe),
            "train_accuracy": probe["train_correct"] / probe["train_n"],
            "collapsed": probe["layer"] in run["collapsed"],
            "absent": " ".join(map(str, probe["absent"])),
        }
        for probe in record["probes"]
    ] or [common]


def summarise(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Mean, SD (ddof 1) and n over seeds of every method, setting, strength, probe, layer and feature.

    The bits become one feature, their mean; a seed that several folders have under one setting (the same cell of two
    suites) counts once, as the mean of its records. `values` holds the seeds' own accuracies. `floor` is the mean of
    the untrained encoder at the same strength by the same probe, and `below` says that the mean lies under it.
    """
    good = frame[frame["accuracy"].notna()].copy()
    good["feature"] = good["feature"].map(lambda name: BITS if records.is_bit(name) else name)
    keys = [*GROUP, "strength", "encoder", "method", "setting", "probe", "layer", "feature"]
    good["setting"] = good["setting"].fillna("")
    per_seed = good.groupby([*keys, "seed"], dropna=False, sort=False).agg(
        accuracy=("accuracy", "mean"), chance=("chance", "first"), converged=("converged", "all")
    )
    found = per_seed.groupby(keys, dropna=False, sort=False).agg(
        mean=("accuracy", "mean"), deviation=("accuracy", "std"), n=("accuracy", "size"),
        chance=("chance", "first"), converged=("converged", "all"), values=("accuracy", tuple),
    ).reset_index()  # fmt: skip
    place = [*GROUP, "strength", "encoder", "probe", "feature"]
    floors = found[(found["method"] == "untrained") & (found["layer"] == "encoder")]
    floors = floors.groupby(place, dropna=False)["mean"].mean()
    found["floor"] = [floors.get(tuple(row), float("nan")) for row in found[place].itertuples(index=False)]
    # Below in the tables' tenth of a percent: less is neither visible nor worth a mark.
    found["below"] = (found["mean"].round(3) < found["floor"].round(3)) & (found["method"] != "untrained")
    return found
