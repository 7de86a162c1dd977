"""Rules of principal axes, with the integer codes of the kernels."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from equigeo.ops.edges.gather_sum import segment_of_rows


class SignRule(IntEnum):
    """Rule for the signs of axes.

    Skewness is the third moment divided by the sum of the magnitudes of its terms.
    """

    AS_FOUND = 0
    """Signs of the solver."""
    EACH = 1
    """Each by the skewness along it."""
    LAST = 2
    """Each by its skewness except the last axis, which makes the frame right-handed."""
    LEAST = 3
    """Each by its skewness except that of least skewness, which makes the frame right-handed."""


class ScaleRule(IntEnum):
    """Rule that determines the scale of clouds."""

    UNSCALED = 0
    """Nothing."""
    RMS = 1
    """The root mean square of points."""
    FIRST = 2
    """The root mean square of the first coordinate."""
    PAIRS = 3
    """The root mean square of distances between two points."""


@dataclass(frozen=True)
class Clouds:
    """Assignment of rows to clouds, with weights in float64."""

    segment: Tensor  # (points,), int64: cloud of each row
    weight: Tensor  # (points,), zero for rows that are ignored
    total: Tensor  # (clouds,), sums of weights

    @classmethod
    def of(
        cls,
        ptr: Tensor,  # (clouds + 1,)
        weight: Tensor | None,  # (points,), ones by default
        points: int,
    ) -> Clouds:
        """Expand offsets and optional weights to one entry per row."""
        clouds = ptr.shape[0] - 1
        segment = segment_of_rows(ptr[1:], points)
        if weight is None:
            weight = torch.ones(points, dtype=torch.float64, device=ptr.device)
        weight = weight.detach().double()
        total = weight.new_zeros(clouds).index_add(0, segment, weight)
        return cls(segment, weight, total)

    @property
    def counts(self) -> Tensor:
        """Return a mask of the rows with nonzero weight, (points, 1)."""
        return self.weight[:, None] > 0

    def add_up(
        self,
        rows: Tensor,  # (points, ...)
    ) -> Tensor:  # (clouds, ...)
        """Return sums of rows per cloud, zero for empty clouds."""
        return rows.new_zeros(len(self.total), *rows.shape[1:]).index_add(0, self.segment, rows)

    def mean(
        self,
        rows: Tensor,  # (points, ...), finite even where the weight is zero
    ) -> Tensor:  # (clouds, ...)
        """Return weighted means of rows per cloud, zero for clouds without weight."""
        shape = (-1, *(1,) * (rows.ndim - 1))
        return self.add_up(self.weight.view(shape) * rows) / safe_divisor(self.total).view(shape)

    def largest(
        self,
        rows: Tensor,  # (points, dim)
    ) -> Tensor:  # (clouds,)
        """Return the largest absolute component per cloud, detached; zero for empty clouds."""
        magnitude = rows.detach().abs().amax(-1) if rows.shape[1] else rows.detach().sum(-1)
        zero = rows.new_zeros(len(self.total))
        return zero.scatter_reduce(0, self.segment, magnitude, "amax")

    def first(self) -> Tensor:
        """Return the index of the first row with nonzero weight per cloud, else of any row."""
        number = torch.arange(len(self.segment), device=self.segment.device)
        number = torch.where(self.weight > 0, number, len(number) - 1)
        last = number.new_full((len(self.total),), max(len(number) - 1, 0))
        return last.scatter_reduce(0, self.segment, number, "amin")


def safe_divisor(x: Tensor) -> Tensor:
    """Replace zeros by ones to avoid division by zero."""
    return torch.where(x == 0, 1, x)


def safe_root(
    square: Tensor,  # nonnegative
) -> Tensor:
    """Return the square root with zero derivative at zero."""
    positive = square > 0
    return torch.where(positive, torch.where(positive, square, 1).sqrt(), 0)


def scale_factors(
    rule: int,  # ScaleRule.RMS, FIRST or PAIRS
    total: Tensor,  # (clouds,), number of points or sum of weights
    dim: int,  # number of axes
) -> Tensor:  # (clouds, dim), float64
    """Return the factors of the squared spreads in the squared scale of each cloud."""
    # n (n - 1) / 2 pairs have n times the sum of squares about the mean: a mean of 2 / (n - 1).
    pairs = rule == ScaleRule.PAIRS
    factor = 2 / (total - 1).clamp(min=1) if pairs else 1 / safe_divisor(total)
    shares = torch.arange(dim, device=total.device) < (1 if rule == ScaleRule.FIRST else dim)
    return factor[:, None] * shares
