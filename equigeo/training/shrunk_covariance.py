"""Shrinkage estimate of a covariance from few samples in many channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from equigeo._brief import brief_fields

_LEAST: Final = 1e-4  # shrinkage, which keeps half of the digits of a double in differences


@dataclass(frozen=True, eq=False)
class ShrunkCovariance:
    """Inverse covariance ``1 / scale - axes.T @ axes`` with a few axes."""

    scale: float  # variance across all other axes
    axes: Tensor  # (axes, channels)

    __repr__ = brief_fields

    @classmethod
    def fit(
        cls,
        x: Tensor,  # (samples, channels) float64
    ) -> ShrunkCovariance | None:
        """Estimate from centred samples; return None if all are zero."""
        samples, channels = x.shape
        values, vectors = _spectrum(x)  # of x.T @ x / samples
        variance = float(values.sum()) / channels
        if not variance > 0:
            return None
        square = float(values.square().sum())  # of the norm of the covariance of the samples
        spread = square - channels * variance**2
        fourth = float(x.square().sum(dim=1).square().mean())
        error = max((fourth - square) / samples, 0.0)
        # Optimal shrinkage to a multiple of the identity: Ledoit and Wolf, "A well-conditioned
        # estimator for large-dimensional covariance matrices", 2004.
        share = max(min(error / spread, 1.0), _LEAST) if spread > 0 else 1.0
        scale = share * variance
        gain = 1 / scale - 1 / (scale + (1 - share) * values)
        return cls(scale, gain.sqrt()[:, None] * vectors)

    def squared_lengths(
        self,
        x: Tensor,  # (vectors, channels) float64
    ) -> Tensor:
        """Return the squared Mahalanobis lengths of vectors, (vectors,)."""
        whole = x.square().sum(dim=1) / self.scale
        return whole - (x @ self.axes.mT).square().sum(dim=1)


def _spectrum(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return variances above rounding and their unit axes (rows), by the smaller Gram matrix."""
    samples, channels = x.shape
    is_wide = samples < channels
    values, vectors = torch.linalg.eigh((x @ x.mT if is_wide else x.mT @ x) / samples)
    kept = values > torch.finfo(x.dtype).eps * max(x.shape) * values.amax()
    values, axes = values[kept], vectors[:, kept].mT
    if is_wide:
        axes = (axes @ x) / (values * samples).sqrt()[:, None]
    return values, axes
