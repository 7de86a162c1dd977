"""Transformed copies of point clouds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from equigeo._core.brief import brief_fields
from equigeo.tasks.common.classification import accuracy
from equigeo.training.process import derived_generator


@dataclass(frozen=True)
class CopyResult:
    """Predictions on transformed copies."""

    kind: str  # of the copies
    accuracy: float  # on the copies
    changed: list[str]  # names of samples with a changed predicted class
    largest_difference: float  # of a probability

    __repr__ = brief_fields

    @classmethod
    def compare(
        cls,
        kind: str,
        seen: Tensor,  # (samples, classes) probabilities of the copies
        original: Tensor,  # (samples, classes)
        labels: Tensor,  # (samples,)
        names: Sequence[str],
    ) -> CopyResult:
        """Compare probabilities on copies and on originals."""
        predicted = seen.argmax(dim=1)
        # compared with the original's prediction, right or wrong
        changed = (predicted != original.argmax(dim=1)).nonzero().flatten().tolist()
        return cls(
            kind=kind,
            accuracy=accuracy(seen, labels),
            changed=[names[i] for i in changed],
            largest_difference=(seen - original).abs().max().item(),
        )


def random_orthogonal(generator: torch.Generator, determinant: float, dim: int = 3) -> Tensor:
    """Draw an orthogonal matrix of determinant 1 or -1 from the Haar measure, (dim, dim)."""
    # the distribution of a Gaussian matrix is that of its product with any orthogonal one
    gaussian = torch.randn(dim, dim, generator=generator, dtype=torch.float64)
    q, r = torch.linalg.qr(gaussian)
    q = q * r.diagonal().sign()  # makes the factorization unique, hence the draw uniform
    signs = (torch.linalg.det(q) * determinant).sign().repeat(dim)
    signs[: 1 - dim % 2] = 1.0  # an odd number of axes is reversed, or none
    return q * signs


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
