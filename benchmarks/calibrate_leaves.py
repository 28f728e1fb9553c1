"""How hard the image source `leaves` is: a small supervised network against what colour and coarse pixels tell."""

import os
import platform
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "2")

import numpy as np
import sklearn
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch import nn

from generators.image_sources.leaves import Leaves

SIDE, EPOCHS, BATCH, SEEDS = 64, 12, 64, (0, 1, 2)


def images_of(leaves: Leaves, part: str) -> np.ndarray:
    """All images of a part, (n, 64, 64, 3) uint8."""
    return np.stack([leaves.image(part, index, SIDE) for index in range(leaves.count(part))])


def mean_colour(images: np.ndarray) -> np.ndarray:
    """(n, 3): the mean of each channel."""
    return images.mean((1, 2))


def colour_histogram(images: np.ndarray) -> np.ndarray:
    """(n, 512): fractions of the pixels in 8 x 8 x 8 colour bins, as square roots (for a linear model)."""
    bins = (images // 32).astype(np.int64) @ np.array([64, 8, 1])
    return np.stack([np.sqrt(np.bincount(one.ravel(), minlength=512) / one.size) for one in bins])


def coarse_pixels(images: np.ndarray) -> np.ndarray:
    """(n, 768): the image averaged down to 16 x 16 pixels."""
    return images.reshape(len(images), 16, 4, 16, 4, 3).mean((2, 4)).reshape(len(images), -1)


def logistic(features, train: np.ndarray, train_labels, test: np.ndarray, test_labels) -> float:
    """Test accuracy of the better of two L2 strengths (the choice on test data favours the baseline)."""
    scaler = StandardScaler().fit(features(train))
    inputs, held_out = scaler.transform(features(train)), scaler.transform(features(test))
    fits = [LogisticRegression(C=c, max_iter=500).fit(inputs, train_labels) for c in (1e-4, 1e-2)]
    return max(fit.score(held_out, test_labels) for fit in fits)


def small_network() -> nn.Module:
    """Four 3 x 3 convolutions and a linear layer, about 100,000 parameters."""
    layers: list[nn.Module] = []
    for width_in, width_out, stride in ((3, 24, 2), (24, 48, 2), (48, 64, 2), (64, 96, 1)):
        layers += [nn.Conv2d(width_in, width_out, 3, stride, 1, bias=False), nn.BatchNorm2d(width_out), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, 10))


def train_network(seed: int, train: torch.Tensor, labels: torch.Tensor) -> nn.Module:
    """AdamW with a one-cycle rate; shifts of up to 4 pixels, the same for a batch, no mirroring."""
    torch.manual_seed(seed)
    network = small_network().to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(network.parameters(), lr=5e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, EPOCHS * (len(train) // BATCH))
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(train))[: len(train) // BATCH * BATCH].split(BATCH):
            top, left = torch.randint(0, 9, (2,)).tolist()
            inputs = normalised(train[batch, :, top : top + 56, left : left + 56])
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(inputs), labels[batch]).backward()
            optimizer.step()
            schedule.step()
    return network.eval()


def normalised(images: torch.Tensor) -> torch.Tensor:
    return images.float().div(64).sub(2).contiguous(memory_format=torch.channels_last)


@torch.no_grad()
def predictions(network: nn.Module, images: torch.Tensor) -> np.ndarray:
    """Classes predicted from the whole images, (n,)."""
    return torch.cat([network(normalised(part)).argmax(1) for part in images.split(500)]).numpy()


def main() -> None:
    torch.set_num_threads(2)
    start, leaves = time.perf_counter(), Leaves()
    train, test = images_of(leaves, "train"), images_of(leaves, "test")
    train_labels, test_labels = leaves.labels["train"], leaves.labels["test"]
    numbers = f"{len(train)} / {len(test)}"
    print(f"| Model | train / test n | Test accuracy (n = {len(test)}) | Seeds |\n|---|---|---|---|")
    baselines = {"mean colour": mean_colour, "colour histogram 8x8x8": colour_histogram, "16x16 pixels": coarse_pixels}
    for name, features in baselines.items():
        score = logistic(features, train, train_labels, test, test_labels)
        print(f"| logistic regression, {name} | {numbers} | {score:.3f} | deterministic |", flush=True)
    tensors = [torch.from_numpy(images).permute(0, 3, 1, 2) for images in (train, test)]
    guesses, scores, parameters = [], [], 0
    for seed in SEEDS:
        network = train_network(seed, tensors[0], torch.from_numpy(train_labels))
        guesses.append(predictions(network, tensors[1]))
        parameters = sum(p.numel() for p in network.parameters())
        scores.append(float((guesses[-1] == test_labels).mean()))
        print(f"seed {seed}: {scores[-1]:.3f} after {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    each = ", ".join(f"{score:.3f}" for score in scores)
    print(
        f"| 4 convolutions ({parameters:,} parameters, {EPOCHS} epochs) | {numbers} | "
        f"{np.mean(scores):.3f} (SD {np.std(scores, ddof=1):.3f}; {each}) | {', '.join(map(str, SEEDS))} |"
    )
    print("\nAccuracy by class over all seeds:")
    for label, name in enumerate(leaves.classes):
        print(f"  {name}: {np.mean([(guess == label)[test_labels == label].mean() for guess in guesses]):.3f}")
    print(
        f"\nleaves digest {leaves.digest[:12]}, numpy {np.__version__}, torch {torch.__version__}, scikit-learn "
        f"{sklearn.__version__}, Python {sys.version.split()[0]}, {platform.machine()}, "
        f"{time.perf_counter() - start:.0f} s on {torch.get_num_threads()} threads"
    )


if __name__ == "__main__":
    main()
