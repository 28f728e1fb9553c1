"""SWD: alignment plus the sliced Wasserstein distance of the projections to a prior."""

from typing import Any, Literal, get_args

import torch
from torch import Tensor

from suppression_bench.loss import declares, normalised, products, require, wide

Prior = Literal["hypersphere", "hypercube", "normal"]


@declares(normalises=True)
def swd(
    z1: Tensor,
    z2: Tensor,
    *,
    prior: Prior = "hypersphere",
    weight: float = 5.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Alignment of the two views plus `weight` times the sliced Wasserstein distance of all views to samples of a prior.

    Reference: Chen, Luo & Li (NeurIPS 2021), eq. 2 and Algorithm 1, as in their notebook: the squared differences of
    the sorted projections are averaged over samples and dimensions (lambda 5 belongs to that mean). Only the
    hypersphere scales the projections to length 1; hypercube, uniform in (-1, 1), and normal take them as they are.

    Arguments:
        z1, z2: (N, d) projections of the two views of the same N samples.
        prior: the distribution that the 2N views are to have.
        weight: the lambda of the paper, factor of the distance, 0 or more.
        generator: draws the 2N samples of the prior, then the directions; torch's own by default.

    Returns:
        The scalar loss, float32 at least.

    >>> z = torch.randn(500, 2, generator=torch.Generator().manual_seed(0))
    >>> swd(z, z, generator=torch.Generator().manual_seed(1)).item() < 0.05 < swd(z.abs(), z.abs()).item()
    True
    """
    require(
        prior in get_args(Prior), f"the loss's option prior must be one of {', '.join(get_args(Prior))}, got {prior!r}"
    )
    require(weight >= 0, f"the loss's option weight must be 0 or more, got {weight}")
    scale = normalised if prior == "hypersphere" else wide
    z1, z2 = scale(z1), scale(z2)
    views = torch.cat([z1, z2])
    device = views.device if generator is None else generator.device
    settings: dict[str, Any] = dict(generator=generator, device=device, dtype=views.dtype)
    if prior == "hypercube":
        samples = 2 * torch.rand(views.shape, **settings) - 1
    else:
        samples = scale(torch.randn(views.shape, **settings))
    directions = _rotation(views.shape[1], settings)
    views, samples = (
        products(rows, directions.to(views.device)).sort(dim=0).values for rows in (views, samples.to(views.device))
    )
    return (z1 - z2).square().mean() / 2 + weight * (views - samples).square().mean()


def _rotation(width: int, settings: dict[str, Any]) -> Tensor:
    """A random orthogonal matrix (d, d), its rows the directions; uniform thanks to the signs."""
    q, r = torch.linalg.qr(torch.randn(width, width, **settings))
    return (q * r.diagonal().sign()).T
