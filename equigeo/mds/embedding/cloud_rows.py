"""Point clouds in any input format, as rows with offsets."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.graphs.cloud_offsets import cloud_offsets
from equigeo.graphs.inputs import TensorLike, as_tensor
from equigeo.ops.runtime.torch_internals import values_readable
from equigeo.ops.segments.segment_of_rows import segment_of_rows
from equigeo.points.cloud_checks import doubt_axes, doubt_integers


@dataclass(frozen=True, eq=False, repr=False)
class CloudRows:
    """Rows of points, cloud by cloud."""

    points: Tensor  # (rows, dim), float32 or float64
    ptr: Tensor  # (clouds + 1,), int64
    weight: Tensor | None  # (rows,), zero for masked rows
    shape: tuple[int, ...]  # shape of the given tensor
    ragged: bool  # whether offsets were given
    eps: float  # rounding error of the given dtype

    @classmethod
    def of(
        cls,
        x: Tensor,  # (..., points, dim), or (rows, dim) with ptr or batch
        mask: TensorLike | None = None,  # (..., points) or (rows,)
        ptr: TensorLike | None = None,  # (clouds + 1,), offsets of ragged clouds
        weights: TensorLike | None = None,  # (..., points) or (rows,)
        batch: TensorLike | None = None,  # (rows,), cloud of each row instead of ptr
    ) -> CloudRows:
        """Validate clouds and convert them to rows with offsets."""
        ragged = ptr is not None or batch is not None
        _check_points(x, ragged)
        # Integers become float64, 16-bit types float32.
        points, eps = _floating(x)
        rows = points.reshape(-1, x.shape[-1])
        weight = _weight(x, mask, weights, rows.dtype)
        offsets = cloud_offsets(len(rows), batch, ptr)
        if offsets is None:
            count, clouds = x.shape[-2], x.shape[:-2].numel()
            offsets = _equal_offsets(clouds, count, x.device)
        found = cls(rows, offsets, weight, tuple(x.shape), ragged, eps)
        found._check_some_weight()
        return found

    def __repr__(self) -> str:
        """Return the numbers of clouds and rows."""
        return f"CloudRows(clouds={len(self.ptr) - 1}, points={tuple(self.points.shape)})"

    def _check_some_weight(self) -> None:
        """Raise if mask and weights leave nothing of a cloud that has rows."""
        if self.weight is None or not values_readable(self.weight):
            return
        gone = (self.total == 0) & (self.ptr.diff() > 0)
        if bool(gone.any()):
            raise ValueError(
                f"every cloud must have a point of positive weight, got {int(gone.sum())} of which "
                "mask and weights leave none"
            )

    @property
    def batch(self) -> tuple[int, ...]:
        """Return the batch axes of values per cloud."""
        return (len(self.ptr) - 1,) if self.ragged else self.shape[:-2]

    def by_precision(
        self,
        double: float,  # for float64 and integers
        other: float,  # for float32 and 16-bit types
    ) -> float:
        """Return a tolerance for the given dtype."""
        return double if self.eps == torch.finfo(torch.float64).eps else other

    @property
    def total(self) -> Tensor:
        """Return the number of points or the sum of weights per cloud, (clouds,), float64."""
        if self.weight is None:
            return self.ptr.diff().double()
        return self.add_up(self.weight.double()[:, None])[:, 0]

    def rows(
        self,
        values: Tensor,  # (rows, ...)
    ) -> Tensor:  # (..., points, ...)
        """Reshape values per row like the points."""
        return values if self.ragged else values.reshape((*self.shape[:-1], *values.shape[1:]))

    def clouds(
        self,
        values: Tensor,  # (clouds, ...)
    ) -> Tensor:  # (*batch, ...)
        """Reshape values per cloud like the batch."""
        if self.ragged or len(self.shape) == 3:  # as they are
            return values
        return values.reshape((*self.batch, *values.shape[1:]))

    def spread_out(
        self,
        values: Tensor,  # (clouds, ...)
    ) -> Tensor:  # (rows, ...)
        """Repeat values per cloud for each row."""
        if self.ragged:
            return values.index_select(0, segment_of_rows(self.ptr[1:], len(self.points)))
        return values.repeat_interleave(self.shape[-2], 0)

    def add_up(
        self,
        values: Tensor,  # (rows, ...)
    ) -> Tensor:  # (clouds, ...)
        """Return sums over the rows of each cloud, zero for empty clouds."""
        clouds = len(self.ptr) - 1
        if not self.ragged:
            return values.reshape(clouds, self.shape[-2], *values.shape[1:]).sum(1)
        segment = self.spread_out(torch.arange(clouds, device=values.device))
        return values.new_zeros(clouds, *values.shape[1:]).index_add(0, segment, values)

    def largest(
        self,
        values: Tensor,  # (rows,), nonnegative
    ) -> Tensor:  # (clouds,)
        """Return the maximum over the rows of each cloud, zero for empty clouds."""
        clouds = len(self.ptr) - 1
        segment = self.spread_out(torch.arange(clouds, device=values.device))
        return values.new_zeros(clouds).scatter_reduce(0, segment, values, "amax")


def _equal_offsets(clouds: int, count: int, device: torch.device) -> Tensor:
    if count == 0:
        return torch.zeros(clouds + 1, dtype=torch.int64, device=device)
    return torch.arange(0, clouds * count + 1, count, device=device)


def _check_points(x: Tensor, ragged: bool) -> None:
    if x.is_complex() or x.dtype == torch.bool:
        raise TypeError(f"points must be real numbers, got {x.dtype}")
    if x.ndim < 2 or (ragged and x.ndim != 2):
        wanted = "(rows, dim) with ptr or batch" if ragged else "(..., points, dim)"
        raise ValueError(f"points must be {wanted}, got {tuple(x.shape)}")
    if x.shape[-1] < 1:
        raise ValueError(f"points must have at least one component, got {tuple(x.shape)}")
    doubt_integers(x, "points")
    if not ragged:
        doubt_axes(x, "points")


def _floating(x: Tensor) -> tuple[Tensor, float]:
    if not x.is_floating_point():
        return x.double(), torch.finfo(torch.float64).eps
    wide = x if x.dtype in (torch.float32, torch.float64) else x.float()
    return wide, torch.finfo(x.dtype).eps


def _weight(
    x: Tensor, mask: TensorLike | None, weights: TensorLike | None, dtype: torch.dtype
) -> Tensor | None:
    """Return the weights of all rows, or None if all are one."""
    weight = None
    for name, value in (("mask", mask), ("weights", weights)):
        if value is None:
            continue
        given = as_tensor(value, name, like=x if x.is_floating_point() else None)
        if given.shape != x.shape[:-1]:
            raise ValueError(f"{name} must be {tuple(x.shape[:-1])}, got {tuple(given.shape)}")
        if (given.dtype == torch.bool) != (name == "mask") or given.is_complex():
            kind = "bool" if name == "mask" else "real numbers"
            raise TypeError(f"{name} must be {kind}, got {given.dtype}")
        given = given.detach().to(dtype).reshape(-1)
        if name == "weights" and values_readable(given):
            _check_weights(given)
        weight = given if weight is None else torch.where(weight > 0, given, 0)
    return weight


def _check_weights(weights: Tensor) -> None:
    if not bool(((weights >= 0) & weights.isfinite()).all()):
        raise ValueError("weights must be finite and not negative")
