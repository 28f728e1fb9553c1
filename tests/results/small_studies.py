"""Small studies of hand-made records, with metrics and traces where a table or a figure needs them."""

from typing import Any

import msgspec
from small_cells import make_record, probe_entry

from suppression_bench.cell import Cell
from suppression_bench.results.frame import Study
from suppression_bench.results.record import Record

SPLITS = ["pretrain", "probe-test"]
MNIST = {"name": "randbit", "version": 1, "options": {"digit_source": "mnist"}, "bits": 5}
PLAIN = {"name": "plain", "version": 1, "options": {}}


def study_of(records: list[Record], missing: list[Record] | None = None) -> Study:
    """A study of records; `missing` are planned only."""
    planned = [*records, *(missing or [])]
    return Study({record.id: record for record in records}, {record.id: record.spec for record in planned})


def bit_entries(*correct: int) -> list:
    """The probes of some bits, each with so many of 100 right."""
    return [probe_entry(count, feature=f"bit{index:02d}", classes=2) for index, count in enumerate(correct)]


def plugin(name: str, **options: Any) -> dict[str, Any]:
    return {"name": name, "options": options, "version": 1}


def metrics(knn: dict[str, int], factors: dict[str, float] | None = None, **changes: Any) -> dict[str, Any]:
    """Metrics of layers and features on 200 test samples.

    Arguments:
        knn: feature -> right answers of k-NN.
        factors: layer -> what its alignment, uniformity and tolerance are multiplied with.
        changes: of single values of every layer and feature.
    """
    layers, features = [], []
    for layer, factor in (factors or {"encoder": 1.0}).items():
        common = {"layer": layer, "splits": SPLITS, "n": 200}
        values = {"alignment": 0.25, "uniformity": 2.5, "effective_rank": 12.34, "positive_similarity": 0.9}
        values |= {name: value for name, value in changes.items() if name in values}
        values = {name: value and value * factor for name, value in values.items()}
        layers.append({**common, **values, "negative_similarities": [0.5], "gradient_ratios": []})
        shares = {"tolerance": 0.5 * factor, "sensitivity": None, "agreement": 0.75}
        shares |= {name: value for name, value in changes.items() if name in shares}
        features += [
            {**common, **shares, "feature": feature, "knn_correct": correct} for feature, correct in knn.items()
        ]
    return {"version": 1, "temperature": 0.1, "voters": 200, "neighbours": 10, "layers": layers, "features": features}


def described(
    accuracy: int, temperature: float | None = None, method: str = "simclr", seed: int = 0, **changes
) -> Record:
    """A record with metrics of the encoder and of the head, whose values are twice as large."""
    layers = {"encoder": 1.0, "head": 2.0}
    record = make_record(
        [probe_entry(accuracy, layer=layer) for layer in layers],
        method,
        seed,
        metrics=metrics({"digit": 2 * (accuracy - 5)}, layers, **changes),
    )
    if temperature is None:
        return record
    return with_spec(record, loss=plugin("nt-xent", temperature=temperature), varied={"loss.temperature": temperature})


def with_spec(record: Record, **changes: Any) -> Record:
    """The record with other fields of its spec, plain values, and the id that this makes."""
    spec = msgspec.convert({**msgspec.to_builtins(record.spec), **changes}, Cell)
    return msgspec.structs.replace(record, spec=spec, id=spec.id)


def traced(digit: tuple[int, int], seed: int = 0) -> Record:
    """A record with a trace of the steps 1 and 4: the digit's right answers, and those of two bits."""
    names = ["digit", "bit00", "bit01"]
    rows = zip((1, 4), digit, ((50, 60), (70, 90)), strict=True)
    points = [
        {"step": step, "feature": name, "splits": SPLITS, "correct": correct, "n": 100, "train_n": 9, "converged": True}
        for step, of_digit, of_bits in rows
        for name, correct in zip(names, (of_digit, *of_bits), strict=True)
    ]
    trace = {"version": 1, "probe": "lbfgs", "l2": 1e-3, "points": points}
    return make_record([probe_entry(50), *bit_entries(50, 50)], bits=2, seed=seed, trace=trace)


def overlay(strength: int, image: int, digit: int, seed: int = 0, method: str = "simclr") -> Record:
    """A record of two competing features."""
    dataset = {"name": "digit-on-imagenet", "version": 1, "options": {"unique_digits": strength}}
    probes = [probe_entry(image, feature="image", classes=20), probe_entry(digit)]
    return make_record(probes, method, seed, dataset=dataset, strength={"key": "unique_digits", "value": strength})


def overlays() -> list[Record]:
    """Two seeds of one method at three strengths, supervised at two, an untrained encoder."""
    strengths = (2, 16, 128)  # in another order as texts
    records = [overlay(k, 60 - 10 * i + 4 * s, 20 + 20 * i - 2 * s, s) for i, k in enumerate(strengths) for s in (0, 1)]
    records += [overlay(k, 80, 70 + i, method="supervised") for i, k in enumerate(strengths[:2])]
    return [*records, overlay(2, 25, 30, method="untrained")]
