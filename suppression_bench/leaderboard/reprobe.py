"""A trained encoder's weights judged again by this package alone: no code of a submission runs here."""

from pathlib import Path

import numpy as np
import torch

from generators import catalog
from generators.dataset import UserError
from suppression_bench.encoder import Encoder
from suppression_bench.evaluation.probes import Probing, measure
from suppression_bench.leaderboard.submission import ENCODERS, RECORDS, strength_text
from suppression_bench.method import Batch, Info, Method, Output
from suppression_bench.results import record as records
from suppression_bench.training.data import Data


class Frozen(Method):
    """An encoder that is only looked at."""

    trains = False

    def loss(self, batch: Batch) -> Output:
        raise NotImplementedError("a frozen encoder is not trained")


def encoder(spec: dict, weights: Path, data: Data) -> Encoder:
    """An encoder of the package with weights from anybody's safetensors file.

    Arguments:
        spec: of the cell; its encoder is one of the package's.
        weights: the file.
        data: opened with the cell's bits.

    Raises:
        UserError: an encoder of somebody's own, damaged weights, those of another network, or numbers that are not finite.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    name = spec["encoder"]["name"]
    if name not in catalog.names("suppression_bench.encoders") or "file" in spec["encoder"]:
        raise UserError(f"{weights}: its encoder {name[:80]!a} is none of the package's")
    made = catalog.load_class("suppression_bench.encoders", name, Encoder)(
        data.image_shape[0], data.channels, **spec["encoder"]["options"]
    )
    try:
        found = load_file(weights)
        made.load_state_dict(found, strict=True)
    except (SafetensorError, OSError, RuntimeError) as error:
        raise UserError(f"{weights}: no weights of {name} ({' '.join(str(error).split())[:200]})") from None
    if not all(bool(torch.isfinite(tensor).all()) for tensor in found.values() if tensor.is_floating_point()):
        raise UserError(f"{weights}: holds numbers that are not finite")
    return made.eval()


def probes(spec: dict, weights: Path, data: Data, device: torch.device) -> list[dict]:
    """The entries of a record's `probes`, from features computed anew: lbfgs on the encoder's output.

    Arguments:
        spec: of the cell.
        weights: its encoder's safetensors file.
        data: opened with the cell's bits; its digest is the caller's to compare.
        device: where to compute.

    Raises:
        UserError: weights that cannot be used, or features that are not finite.
    """
    frozen = Frozen(encoder(spec, weights, data), Info(data.image_shape, data.bits, 1, {})).to(device)
    options = Probing(kinds=["lbfgs"], layers=["encoder"], l2=spec["probe"]["l2"], metric_samples=0)
    found, _, finite = measure(data, frozen, options, {}, 0, device)
    if not finite:
        raise UserError(f"{weights}: its features are not finite")
    return found


def far_off(claimed: list[dict], found: list[dict]) -> list[str]:
    """Where a record's numbers are not those of its weights, each as a sentence.

    Two machines differ in a few of the samples next to a boundary: up to one in fifty (and two) may.
    """
    again = {probe["feature"]: probe for probe in found}
    faults = []
    for probe in claimed:
        other = again.get(probe["feature"])
        if (probe["probe"], probe["layer"]) == ("lbfgs", "encoder") and other:
            here, there = (int(np.trace(np.array(one["confusion"]))) for one in (other, probe))
            if abs(here - there) > max(2, probe["n"] // 50):
                faults.append(
                    f"{probe['feature']}: its encoder gives {here} of {other['n']} right, the record says {there}"
                )
    return faults


def check(folder: Path, folders: dict[str, Path], device: torch.device) -> list[str]:
    """Probe every encoder of a submission again, whose records are known to be in order; contradictions as sentences.

    Arguments:
        folder: of the submission.
        folders: strength as text -> folder of the data.
        device: where to compute.
    """
    faults = []
    for path in sorted((folder / ENCODERS).glob("*.safetensors")):
        record = records.read(folder / RECORDS / f"{path.stem}.json")
        data = Data(folders[strength_text(record)], record["spec"]["data"]["bits"])
        try:
            found = probes(record["spec"], path, data, device)
        except UserError as error:
            faults.append(str(error).replace(f"{folder}/", ""))
            continue
        faults += [f"{path.stem}: {fault}" for fault in far_off(record["probes"], found)]
    return faults
