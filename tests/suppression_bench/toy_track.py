"""A track of small cells, and a whole submission on it by a method of its own."""

import json
from pathlib import Path

from small_cells import CPU, make_cell

from suppression_bench import cell as cells
from suppression_bench.leaderboard import folder, pack, tracks

YAML = """
version: 1
title: Small cells for the tests
suite: tiny
strength: bits
grid: [0, 2]
seeds: {{least: 2, ours: 2}}
digests: {{all: {digest}}}
features: {{all: [digit]}}
locked:
  data: {{dataset: randbit, version: 1, seed: 0, digit_source: optdigits, train: 200, test: 100}}
  encoder: {{name: randbit-conv}}
  augmentation: {{crop: torchvision, area: [0.5, 1.0], aspect: [0.75, 1.3333333333333333], antialias: true}}
  train: {{batch_size: 40, epochs: null, steps: 2, shuffle: true, precision: fp32}}
  probe: {{version: 1, kinds: [lbfgs], l2: [0.01]}}
choices:
  probe: {{layers: [[encoder], [encoder, head]]}}
free:
  method: all
  loss: all
  train: [optimizer, learning_rate, weight_decay, momentum, epsilon, schedule, warmup_epochs, initialisation,
          checkpoint_seconds]
  probe: [block_size, metric_samples, trace]
"""

METHOD = '''"""Both views of a picture come together."""

import torch
from torch import nn
from torch.nn import functional as F

from suppression_bench.method import Method, Output


class Mine(Method):
    """Its features are pulled together.

    Arguments:
        width: of the head.
    """

    def __init__(self, encoder, info, *, width: int = 16):
        super().__init__(encoder, info)
        self.head = nn.Linear(encoder.width, width)

    def loss(self, batch):
        features = [self.encoder(view) for view in batch.views]
        first, second = (F.normalize(self.head(h), dim=1) for h in features)
        return Output((first - second).square().sum(1).mean(), features[0])
'''


def make_track(place: Path, data: Path) -> Path:
    """A folder of tracks with `toy` beside the package's."""
    digest = json.loads((data / "manifest.json").read_text())["content_digest"]
    place.mkdir()
    for path in tracks.FOLDER.glob("*.yaml"):
        (place / path.name).write_text(path.read_text())
    (place / "toy.yaml").write_text(YAML.format(digest=digest))
    return place


def use(monkeypatch, place: Path) -> None:
    """Read tracks from a folder of the test's."""
    monkeypatch.setattr(tracks, "FOLDER", place)
    tracks.read.cache_clear()


def run_cells(method: str, data: Path, out: Path, seeds=(0, 1), **settings) -> list[Path]:
    """The folders of a method's cells on the toy track."""
    made = []
    for bits in (0, 2):
        for seed in seeds:
            more = {"train__steps": 2, "probe__l2": [0.01], **settings}
            cell = make_cell(method, data, seed=seed, data__bits=bits, **more)
            cells.run(cell, out / "cells" / cell.folder_name, CPU)
            made.append(out / "cells" / cell.folder_name)
    return made


def reseal(place: Path, **changes) -> None:
    """The form's list of files made true again after an edit, as a forger would."""
    form = json.loads((place / "submission.json").read_text())
    form.update({"files": folder.listed(place), **changes})
    (place / "submission.json").write_text(json.dumps(form))


WISH = pack.Wish("My Method", "https://example.org/paper", "me@example.org", "toy")
