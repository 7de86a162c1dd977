"""What all networks of points have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn


class PointNetwork(nn.Module, ABC):
    """A classifier of clouds of points, of which some may be padding.

    Parameters
    ----------
    dim : int
        Coordinates of a point.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, points: Tensor, mask: Tensor | None = None) -> Tensor:
        """Classify.

        Parameters
        ----------
        points : Tensor, (..., points, dim), floating
            Clouds.
        mask : Tensor, (..., points), bool, optional
            Which points there are, one at least in every cloud; what the others hold does not
            matter, and is no part of the statistics of training unless a cloud has fewer points
            than neighbours are read.

        Returns
        -------
        Tensor, (..., num_classes), floating
            Logits.

        Raises
        ------
        ValueError
            If shapes or types do not fit, or there are no points.
        """
        shape = tuple(points.shape)
        if len(shape) < 2 or shape[-1] != self.dim or shape[-2] == 0:
            raise ValueError(
                f"points must be (..., points, {self.dim}) with at least one point, got {shape}"
            )
        if not points.is_floating_point():
            raise ValueError(f"points must be floating, got {points.dtype}")
        if mask is not None and (mask.shape != points.shape[:-1] or mask.dtype != torch.bool):
            raise ValueError(
                f"mask must be bool {shape[:-1]}, got {mask.dtype} {tuple(mask.shape)}"
            )
        x = points.reshape(-1, *shape[-2:])
        if mask is not None:
            mask = mask.reshape(-1, shape[-2])
            x = x.masked_fill(~mask[..., None], 0)
        return self.classify(x, mask).view(*shape[:-2], -1)

    @abstractmethod
    def classify(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Classify a batch, (B, points, dim), whose padding is zero, to (B, num_classes)."""


def check_positive(dropout: float, **settings: int | Sequence[int]) -> None:
    """Refuse settings that would fail late.

    Parameters
    ----------
    dropout : float
        A share, less than 1.
    **settings : int or sequence of int
        Positive, and at least one number each but for ``hidden``.

    Raises
    ------
    ValueError
        Naming the setting.

    Examples
    --------
    >>> check_positive(0.5, widths=(64, 0))
    Traceback (most recent call last):
        ...
    ValueError: widths must be positive, got (64, 0)
    """
    for name, value in settings.items():
        numbers = (value,) if isinstance(value, int) else tuple(value)
        if min(numbers, default=1 if name == "hidden" else 0) < 1:
            shown = value if isinstance(value, int) else numbers
            raise ValueError(f"{name} must be positive, got {shown}")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must be at least 0 and less than 1, got {dropout}")
