"""VICReg: invariance of the views, variance of every dimension, no covariance between dimensions."""

from torch import Tensor
from torch.nn import functional as F

from suppression_bench.loss import declares, products, require, wide, without_diagonal


@declares(normalises=False)
def vicreg(
    z1: Tensor,
    z2: Tensor,
    *,
    invariance_weight: float = 25.0,
    variance_weight: float = 25.0,
    covariance_weight: float = 1.0,
) -> Tensor:
    """Squared distance of the views, hinge on each dimension's standard deviation, squared covariances of dimensions.

    Reference: Bardes, Ponce & LeCun (ICLR 2022), eq. 1-6, with the scales of the authors' code: the distance is a mean
    over samples and dimensions, the hinge max(0, 1 - sqrt(variance + 1e-4)) a mean over dimensions and both views, the
    covariance the sum of the squares off the diagonal over d, added up over both views.

    Arguments:
        z1, z2: (N, d) projections of the two views of the same N samples, N at least 2.
        invariance_weight: lambda of the paper, 0 or more.
        variance_weight: mu of the paper, 0 or more.
        covariance_weight: nu of the paper, 0 or more.

    Returns:
        The scalar loss, float32 at least.

    >>> import torch
    >>> z = 2 * torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> vicreg(z, z).item()
    0.0
    """
    weights = dict(
        invariance_weight=invariance_weight, variance_weight=variance_weight, covariance_weight=covariance_weight
    )
    for name, value in weights.items():
        require(value >= 0, f"the loss's option {name} must be 0 or more, got {value}")
    require(len(z1) > 1, "a batch of one sample has no variance: give two samples or more")
    z1, z2 = wide(z1), wide(z2)
    hinge = sum(F.relu(1 - (z.var(dim=0) + 1e-4).sqrt()).mean() for z in (z1, z2)) / 2
    return invariance_weight * F.mse_loss(z1, z2) + variance_weight * hinge + covariance_weight * (_off(z1) + _off(z2))


def _off(z: Tensor) -> Tensor:
    """Sum of the squared covariances of different dimensions, over d."""
    columns = (z - z.mean(dim=0)).T
    return without_diagonal(products(columns, columns) / (z.shape[0] - 1)).square().sum() / z.shape[1]
