"""Transformed copies of point clouds."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from equigeo.tasks.measures.random_orthogonal import random_orthogonal
from equigeo.training.random_state import derived_generator

CLOUD_COPIES: Final = ("rotated", "reflected", "scaled", "translated", "sheared", "re-ordered")

_STRETCH = 0.1  # deviation of every entry of the logarithm of a stretch


def cloud_copies(
    points: Tensor,  # (clouds, points, dim)
    kind: str,  # one of CLOUD_COPIES
    seed: int = 0,  # combined with the position of the cloud
) -> Tensor:
    """Draw a transformed copy of every cloud, computed in float64."""
    # rotated: Haar; reflected: rotated and mirrored; scaled: 1/4 to 4, log-uniform; translated: by
    # a unit normal; sheared: rotated, then stretched without change of volume, log-deviation 0.1.
    if kind not in CLOUD_COPIES:
        raise ValueError(f"kind must be one of {', '.join(CLOUD_COPIES)}, got {kind!r}")
    copies = torch.empty_like(points)
    for i, cloud in enumerate(points):
        copies[i] = _copy(cloud.double(), kind, derived_generator(seed, kind, i))
    return copies


def _copy(cloud: Tensor, kind: str, generator: torch.Generator) -> Tensor:
    if kind == "re-ordered":
        return cloud[torch.randperm(len(cloud), generator=generator)]
    dim = cloud.shape[1]
    if kind == "translated":
        return cloud + torch.randn(dim, generator=generator, dtype=cloud.dtype)
    if kind == "scaled":
        # log-uniform from 1/4 to 4
        return cloud * 4.0 ** (2 * torch.rand((), generator=generator, dtype=cloud.dtype) - 1)
    q = random_orthogonal(generator, -1.0 if kind == "reflected" else 1.0, dim)
    if kind == "sheared":
        # the exponential of a symmetric matrix without trace: positive, of determinant 1
        noise = _STRETCH * torch.randn(dim, dim, generator=generator, dtype=cloud.dtype)
        symmetric = noise.tril() + noise.tril(-1).mT
        symmetric = symmetric - symmetric.trace() / dim * torch.eye(dim, dtype=cloud.dtype)
        q = torch.linalg.matrix_exp(symmetric) @ q
    return cloud @ q.mT  # points are rows
