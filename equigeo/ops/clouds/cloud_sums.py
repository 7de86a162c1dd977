"""Sums over clouds of points, and the arithmetic that references of principal axes share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.ops.clouds.axis_rules import ScaleRule
from equigeo.ops.segments.segment_of_rows import segment_of_rows


@dataclass(frozen=True)
class Clouds:
    """Which rows belong to which cloud, and their weights in float64.

    Parameters
    ----------
    segment : Tensor, (points,), int64
        Cloud of each row.
    weight : Tensor, (points,), float64
        Zero for rows that do not count.
    total : Tensor, (clouds,), float64
        Sums of weights.
    """

    segment: Tensor
    weight: Tensor
    total: Tensor

    @classmethod
    def of(cls, ptr: Tensor, weight: Tensor | None, points: int) -> Clouds:
        """Spread offsets over rows.

        Parameters
        ----------
        ptr : Tensor, (clouds + 1,), int64
            Offsets of the clouds.
        weight : Tensor, (points,), optional
            Weights; one each by default.
        points : int
            Number of rows.

        Returns
        -------
        Clouds
            The same in a form that references use.
        """
        clouds = ptr.shape[0] - 1
        segment = segment_of_rows(ptr[1:], points)
        if weight is None:
            weight = torch.ones(points, dtype=torch.float64, device=ptr.device)
        weight = weight.detach().double()
        total = weight.new_zeros(clouds).index_add(0, segment, weight)
        return cls(segment, weight, total)

    @property
    def counts(self) -> Tensor:
        """Rows that count, (points, 1), bool."""
        return self.weight[:, None] > 0

    def add_up(self, rows: Tensor) -> Tensor:
        """Sums of rows, cloud by cloud.

        Parameters
        ----------
        rows : Tensor, (points, ...)
            Summands.

        Returns
        -------
        Tensor, (clouds, ...)
            Zero for a cloud without rows.
        """
        return rows.new_zeros(len(self.total), *rows.shape[1:]).index_add(0, self.segment, rows)

    def mean(self, rows: Tensor) -> Tensor:
        """Weighted means of rows, cloud by cloud.

        Parameters
        ----------
        rows : Tensor, (points, ...), float64
            Numbers; those of rows that do not count must be finite.

        Returns
        -------
        Tensor, (clouds, ...)
            Zero for a cloud without weight.
        """
        shape = (-1, *(1,) * (rows.ndim - 1))
        return self.add_up(self.weight.view(shape) * rows) / safe_divisor(self.total).view(shape)

    def largest(self, rows: Tensor) -> Tensor:
        """Largest magnitude of a component in each cloud.

        Parameters
        ----------
        rows : Tensor, (points, dim)
            Numbers.

        Returns
        -------
        Tensor, (clouds,)
            Zero for a cloud without rows; not differentiated.
        """
        magnitude = rows.detach().abs().amax(-1) if rows.shape[1] else rows.detach().sum(-1)
        zero = rows.new_zeros(len(self.total))
        return zero.scatter_reduce(0, self.segment, magnitude, "amax")

    def first(self) -> Tensor:
        """Row number of the first row that counts, (clouds,); of some row where none does."""
        number = torch.arange(len(self.segment), device=self.segment.device)
        number = torch.where(self.weight > 0, number, len(number) - 1)
        last = number.new_full((len(self.total),), max(len(number) - 1, 0))
        return last.scatter_reduce(0, self.segment, number, "amin")


def safe_divisor(x: Tensor) -> Tensor:
    """Replace zeros by ones, to divide by.

    Parameters
    ----------
    x : Tensor, (...)
        Numbers.

    Returns
    -------
    Tensor, (...)
        Without zeros.
    """
    return torch.where(x == 0, 1, x)


def safe_root(square: Tensor) -> Tensor:
    """Square root whose derivatives at zero are zero.

    Parameters
    ----------
    square : Tensor, (...)
        Numbers that are not negative.

    Returns
    -------
    Tensor, (...)
        Their roots.
    """
    positive = square > 0
    return torch.where(positive, torch.where(positive, square, 1).sqrt(), 0)


def scale_factors(rule: int, total: Tensor, dim: int) -> Tensor:
    """Shares of squared spreads in the squared scale of a cloud.

    Parameters
    ----------
    rule : ScaleRule
        ``RMS``, ``FIRST`` or ``PAIRS``.
    total : Tensor, (clouds,), float64
        Number of points, or sum of their weights.
    dim : int
        Number of axes.

    Returns
    -------
    Tensor, (clouds, dim), float64
        The squared scale is the sum of their products with the squared spreads.
    """
    # n (n - 1) / 2 pairs have n times the sum of squares about the mean: a mean of 2 / (n - 1).
    pairs = rule == ScaleRule.PAIRS
    factor = 2 / (total - 1).clamp(min=1) if pairs else 1 / safe_divisor(total)
    shares = torch.arange(dim, device=total.device) < (1 if rule == ScaleRule.FIRST else dim)
    return factor[:, None] * shares
