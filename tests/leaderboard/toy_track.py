"""A track of small cells, and a whole submission on it by a method of its own."""

import json
from collections.abc import Callable
from pathlib import Path

from small_cells import CPU, make_cell

from suppression_bench import run as running
from suppression_bench.leaderboard import entry as entries
from suppression_bench.leaderboard import submission, tracks
from suppression_bench.results import record as records
from suppression_bench.results.record import Record

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

METHOD = '''"""Both views of an image come together."""

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


def make_track(folder: Path, data: Path) -> Path:
    """A folder of tracks with `toy` beside the package's."""
    digest = json.loads((data / "manifest.json").read_text())["content_digest"]
    folder.mkdir()
    for path in tracks.FOLDER.glob("*.yaml"):
        (folder / path.name).write_text(path.read_text())
    (folder / "toy.yaml").write_text(YAML.format(digest=digest))
    return folder


def run_cells(method: str, data: Path, out: Path, seeds=(0, 1), **settings) -> dict[Path, Record]:
    """Folder -> record of a method's cells on the toy track."""
    for bits in (0, 2):
        for seed in seeds:
            more = {"train__steps": 2, "probe__l2": [0.01], **settings}
            prepared = make_cell(method, data, seed=seed, data__bits=bits, **more)
            running.run(prepared, out / "cells" / prepared.cell.folder_name, CPU)
    return {path.parent: records.read(path) for path in sorted(out.rglob(records.NAME))}


def edit(folder: Path, change: Callable[[dict], object] = lambda content: None, **texts) -> None:
    """entry.json edited as a forger would: its list of files made true again."""
    path = folder / entries.ENTRY
    content = json.loads(path.read_text())
    change(content)
    content |= {"files": entries.listed(folder), **texts}
    path.write_text(json.dumps(content))


def request(**changes) -> submission.Request:
    texts = {"name": "My Method", "url": "https://example.org/paper", "contact": "me@example.org", "track": "toy"}
    return submission.Request(**{**texts, **changes})
