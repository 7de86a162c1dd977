"""Transformed copies of point clouds."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from equigeo.tasks.measures.random_orthogonal import random_orthogonal
from equigeo.training.random_state import derived_generator

CLOUD_COPIES: Final = ("rotated", "reflected", "scaled", "translated", "sheared", "re-ordered")

_STRETCH = 0.1  # deviation of every entry of the logarithm of a stretch


def cloud_copies(points: Tensor, kind: str, seed: int = 0) -> Tensor:
    """Draw a transformed copy of every cloud.

    ``rotated`` draws from the Haar measure of rotations, and ``reflected`` composes such a rotation
    with a mirror; ``scaled`` multiplies by 1/4 to 4, evenly in the logarithm; ``translated`` moves
    by a normal vector of deviation 1; ``sheared`` applies a rotation and then a stretch without
    change of volume, whose logarithm has entries of deviation 0.1; ``re-ordered`` permutes points.

    Parameters
    ----------
    points : Tensor, (clouds, points, dim), floating
        The originals.
    kind : str
        One of ``CLOUD_COPIES``.
    seed : int
        With the position of a cloud, decides its copy.

    Returns
    -------
    Tensor, (clouds, points, dim), dtype of the originals
        Computed in float64.

    Raises
    ------
    ValueError
        If the kind is unknown.

    Examples
    --------
    >>> moved = cloud_copies(torch.eye(3)[None], "rotated")
    >>> torch.allclose(torch.pdist(moved[0]), torch.pdist(torch.eye(3)))
    True
    """
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
        return cloud * 4.0 ** (2 * torch.rand((), generator=generator, dtype=cloud.dtype) - 1)
    q = random_orthogonal(generator, -1.0 if kind == "reflected" else 1.0, dim)
    if kind == "sheared":
        noise = _STRETCH * torch.randn(dim, dim, generator=generator, dtype=cloud.dtype)
        symmetric = noise.tril() + noise.tril(-1).mT
        symmetric = symmetric - symmetric.trace() / dim * torch.eye(dim, dtype=cloud.dtype)
        q = torch.linalg.matrix_exp(symmetric) @ q
    return cloud @ q.mT
