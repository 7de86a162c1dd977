"""A covariance of few samples in many channels, and lengths that it makes equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from equigeo.nn.brief import brief_fields

_LEAST: Final = 1e-4  # shrinkage, which keeps half of the digits of a double in differences


@dataclass(frozen=True, eq=False)
class ShrunkCovariance:
    r"""The inverse of a covariance that is a multiple of the identity but for a few axes.

    Parameters
    ----------
    scale : float
        Variance :math:`s` across all axes that samples do not tell apart.
    axes : Tensor, (axes, channels)
        The rows :math:`A`, with which the inverse is :math:`1 / s - A^T A`.

    References
    ----------
    Ledoit and Wolf, "A well-conditioned estimator for large-dimensional covariance matrices",
    Journal of Multivariate Analysis 88, 2004.

    Examples
    --------
    >>> samples = torch.tensor([[2.0, 0.0], [-2.0, 0.0], [2.0, 0.1], [-2.0, -0.1]]).double()
    >>> covariance = ShrunkCovariance.fit(samples)
    >>> along, across = covariance.squared_lengths(torch.eye(2).double())
    >>> bool(along < across)
    True
    """

    scale: float
    axes: Tensor

    __repr__ = brief_fields

    @classmethod
    def fit(cls, x: Tensor) -> ShrunkCovariance | None:
        """Estimate from samples of mean zero.

        The covariance of the samples is moved towards the multiple of the identity of equal
        variance, by the share that minimises the expected error.

        Parameters
        ----------
        x : Tensor, (samples, channels), float64
            At least one.

        Returns
        -------
        ShrunkCovariance or None
            None where all samples are zero.
        """
        samples, channels = x.shape
        values, vectors = _spectrum(x)  # of x.T @ x / samples
        variance = float(values.sum()) / channels
        if not variance > 0:
            return None
        square = float(values.square().sum())  # of the norm of the covariance of the samples
        spread = square - channels * variance**2
        fourth = float(x.square().sum(dim=1).square().mean())
        error = max((fourth - square) / samples, 0.0)
        share = max(min(error / spread, 1.0), _LEAST) if spread > 0 else 1.0
        scale = share * variance
        gain = 1 / scale - 1 / (scale + (1 - share) * values)
        return cls(scale, gain.sqrt()[:, None] * vectors)

    def squared_lengths(self, x: Tensor) -> Tensor:
        """Measure vectors by the inverse of the covariance.

        Parameters
        ----------
        x : Tensor, (vectors, channels), float64
            Differences.

        Returns
        -------
        Tensor, (vectors,)
            Not negative but for rounding.
        """
        whole = x.square().sum(dim=1) / self.scale
        return whole - (x @ self.axes.mT).square().sum(dim=1)


def _spectrum(x: Tensor) -> tuple[Tensor, Tensor]:
    """Variances above rounding and their unit axes (rows), by the smaller of the Gram matrices."""
    samples, channels = x.shape
    is_wide = samples < channels
    values, vectors = torch.linalg.eigh((x @ x.mT if is_wide else x.mT @ x) / samples)
    kept = values > torch.finfo(x.dtype).eps * max(x.shape) * values.amax()
    values, axes = values[kept], vectors[:, kept].mT
    if is_wide:
        axes = (axes @ x) / (values * samples).sqrt()[:, None]
    return values, axes
