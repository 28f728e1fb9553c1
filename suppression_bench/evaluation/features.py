"""A frozen encoder's features of whole splits, in blocks."""

import torch
from torch import Tensor

from suppression_bench.method import Method
from suppression_bench.training.data import Samples


@torch.no_grad()
def extract(method: Method, samples: Samples, layers: list[str], batch_size: int) -> dict[str, Tensor]:
    """Features of full, uncropped pictures with their bits, the network in evaluation mode.

    Arguments:
        method: trained; its training mode is restored.
        samples: a split on the method's device.
        layers: encoder (its output) and/or head (the method's projection of it).
        batch_size: pictures per forward pass.

    Returns:
        layer -> (N, D) float32.
    """
    was_training = method.training
    method.eval()
    parts: dict[str, list[Tensor]] = {layer: [] for layer in layers}
    for start in range(0, len(samples), batch_size):
        hidden = method.encoder(samples.whole(slice(start, start + batch_size)))
        for layer in layers:
            parts[layer].append((hidden if layer == "encoder" else method.project(hidden)).float())
    method.train(was_training)
    return {layer: torch.cat(blocks) for layer, blocks in parts.items()}
