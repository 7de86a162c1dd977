"""Rows of clouds, and their rotation to principal axes with signs, scale and flags."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf
from typing import Final

import torch
from torch import Tensor

from equigeo._core.checks import TensorLike, as_tensor
from equigeo._core.tensors import values_readable
from equigeo.graphs.edge_index import cloud_offsets
from equigeo.mds.options import EmbedOptions, FrameSet
from equigeo.ops import ScaleRule, SignRule, principal_axes
from equigeo.ops.edges.gather_sum import segment_of_rows
from equigeo.ops.geometry.axis_flags import axis_flags_op, dependent_axis
from equigeo.points import pad_clouds
from equigeo.points.clouds import doubt_integers, gather_rows
from equigeo.points.neighbors import find_nearest

SCALES: Final = {
    "none": ScaleRule.UNSCALED,
    "rms": ScaleRule.RMS,
    "lambda1": ScaleRule.FIRST,
    "rms_dist": ScaleRule.PAIRS,
    "max": ScaleRule.UNSCALED,  # divided afterwards
}

_SIGN_RULES: Final = {"O": SignRule.EACH, "SO": SignRule.LEAST, None: SignRule.AS_FOUND}


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
        points = x if x.is_floating_point() else x.double()
        eps = torch.finfo(points.dtype).eps
        points = points if points.dtype in (torch.float32, torch.float64) else points.float()
        rows = points.reshape(-1, x.shape[-1])
        weight = _weight(x, mask, weights, rows.dtype)
        offsets = cloud_offsets(len(rows), batch, ptr)
        if offsets is None:
            count, clouds = x.shape[-2], x.shape[:-2].numel()
            offsets = torch.arange(clouds + 1, device=x.device) * count
        found = cls(rows, offsets, weight, tuple(x.shape), ragged, eps)
        found._check_some_weight()
        return found

    def __repr__(self) -> str:
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
        if self.ragged or len(self.shape) == 3:  # one batch axis already
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


def _check_points(x: Tensor, ragged: bool) -> None:
    if x.is_complex() or x.dtype == torch.bool:
        raise TypeError(f"points must be real numbers, got {x.dtype}")
    if x.ndim < 2 or (ragged and x.ndim != 2):
        wanted = "(rows, dim) with ptr or batch" if ragged else "(..., points, dim)"
        raise ValueError(f"points must be {wanted}, got {tuple(x.shape)}")
    if x.shape[-1] < 1:
        raise ValueError(f"points must have at least one component, got {tuple(x.shape)}")
    doubt_integers(x, "points")


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
            if not bool(((given >= 0) & given.isfinite()).all()):
                raise ValueError("weights must be finite and not negative")
        weight = given if weight is None else torch.where(weight > 0, given, 0)
    return weight


# Points whose area is averaged, at most a part of the cloud, and neighbors searched, some copies.
_AVERAGED, _PART, _NEAREST = 32, 8, 48
# Areas above the first are those of outliers, in units of a typical one; above the second, points
# keep a negligible weight.
_WIDE, _LONELY, _NEGLIGIBLE = 4.0, 16.0, 1e-3
_COPIES = 1e-3
"""Distance, relative to the root mean square radius, below which points count as copies."""


def weighted_by_area(clouds: CloudRows) -> CloudRows:
    """Multiply weights by the areas around points, which copies share; constant."""
    if not values_readable(clouds.points):
        raise NotImplementedError(
            "areas depend on values, which vmap, recorded programs and the meta device do not have:"
            " use robust=False, or embed outside of them"
        )
    if not len(clouds.points):
        return clouds
    rows = clouds.points.detach().double()
    points, there = pad_clouds(rows, ptr=clouds.ptr)
    valid = there
    if clouds.weight is not None:
        positive = clouds.weight > 0
        valid = torch.zeros_like(there).index_put((there,), positive)
    finite = points.isfinite().all(-1)
    some = (valid & finite).any(-1)
    valid = torch.where(some[:, None], valid & finite, there)
    points = torch.where(valid[..., None] & finite[..., None], points, 0)
    count = valid.sum(-1, keepdim=True)
    center = points.sum(1, keepdim=True) / count[..., None].clamp(min=1)
    square = torch.where(valid, (points - center).square().sum(-1), 0)
    width = _COPIES * (square.sum(-1, keepdim=True) / count.clamp(min=1)).sqrt()
    width = torch.where(width > 0, width, 1)[..., None]
    index = find_nearest(points, _NEAREST, valid)
    near = (gather_rows(points, index) - points[:, :, None]).square().sum(-1)
    # Where there are fewer points, the nearest one is repeated.
    known = torch.arange(index.shape[-1], device=index.device) < count[..., None]
    share = 1 / (known * (1 - near.sqrt() / width).clamp(min=0)).sum(-1).clamp(min=1)
    share = share * valid
    # The mean square distance to the nearest points of a certain share in all.
    mass = gather_rows(share[..., None], index)[..., 0] * known
    wanted = (share.sum(-1) / _PART).clamp(1, _AVERAGED)[:, None, None]
    used = torch.minimum((wanted - (mass.cumsum(-1) - mass)).clamp(min=0), mass)
    area = (used * near).sum(-1) / used.sum(-1).clamp(min=_NEGLIGIBLE)
    area = area.clamp(min=width[..., 0].square())
    area = area * (share / area).sum(-1, keepdim=True) / share.sum(-1, keepdim=True).clamp(min=1)
    lonely = ((_LONELY - area) / (_LONELY - _WIDE)).clamp(_NEGLIGIBLE, 1)
    weight = (share * area.clamp(max=_WIDE) * lonely)[there].to(clouds.points.dtype)
    return replace(clouds, weight=weight if clouds.weight is None else weight * clouds.weight)


@dataclass(frozen=True, eq=False, repr=False)
class AlignedClouds:
    """Clouds in their principal axes, y = (x - c) F / sigma, with flags; batch axes are flat."""

    clouds: CloudRows
    group: str | None  # "O", "SO" or None
    options: EmbedOptions
    y: Tensor  # (rows, dim)
    frame: Tensor  # (clouds, dim, dim), axes F as columns
    centroid: Tensor  # (clouds, dim), c
    spread: Tensor  # (clouds, dim)
    scale: Tensor  # (clouds,), sigma
    margin: Tensor  # (clouds, dim)
    gap: Tensor  # (clouds, dim - 1)
    ambiguous: Tensor  # (clouds, dim), bool: rounding may change the sign of the axis
    degenerate: Tensor  # (clouds, dim - 1), bool: rounding may mix adjacent axes
    broken: int  # number of non-finite clouds, zero if not requested
    flagged: int  # number of initially flagged clouds, zero if not requested

    def __repr__(self) -> str:
        return f"AlignedClouds({self.clouds}, broken={self.broken}, flagged={self.flagged})"

    @property
    def dim(self) -> int:
        """Return the number of coordinates."""
        return self.spread.shape[-1]

    @property
    def null(self) -> Tensor:
        """Return a mask of axes with zero spread, (clouds, dim)."""
        return self.spread.logical_not()

    @property
    def doubtful(self) -> Tensor:
        """Return a mask of clouds with frames that rounding may change, (clouds,)."""
        return self.ambiguous.any(-1) | self.degenerate.any(-1)

    def flipped(
        self,
        sign: Tensor,  # (clouds, dim), 1 or -1
    ) -> AlignedClouds:
        """Flip axes by signs, with their coordinates and margins."""
        return replace(
            self,
            y=self.y * self.clouds.spread_out(sign),
            frame=self.frame * sign[:, None, :],
            margin=self.margin * sign,
        )

    def seen_in(
        self,
        turn: Tensor,  # (clouds, dim, dim), axes as columns
    ) -> Tensor:  # (rows, dim)
        """Return coordinates in rotated axes."""
        if not self.clouds.ragged:
            clouds = self.y.view(len(turn), self.clouds.shape[-2], self.dim)
            return (clouds @ turn).view_as(self.y)
        return (self.y[:, :, None] * self.clouds.spread_out(turn)).sum(1)

    def frame_set(
        self,
        y: Iterable[Tensor],  # (rows, dim) per frame
        frame: Iterable[Tensor],  # (clouds, dim, dim) per frame
        weight: Tensor,  # (frames, clouds)
        *,
        exact: Tensor,  # (clouds,), bool
        null: Tensor,  # (clouds, dim), bool
    ) -> FrameSet:
        """Stack frames, restoring the batch axes of the points."""
        clouds = self.clouds
        return FrameSet(
            y=torch.stack([clouds.rows(rows) for rows in y]),
            frame=torch.stack([clouds.clouds(axes) for axes in frame]),
            weight=torch.stack([clouds.clouds(w) for w in weight]),
            centroid=clouds.clouds(self.centroid),
            scale=clouds.clouds(self.scale),
            null=clouds.clouds(null),
            exact=clouds.clouds(exact),
            group=str(self.group),
            ptr=clouds.ptr if clouds.ragged else None,
        )


# With centered points X - c = U diag(s) F^T (singular value decomposition; s is the spread):
#   coordinates   y = (X - c) F / sigma
#   margins       m_k = sum_i w_i y_ik^3 / sum_i w_i |y_ik|^3, made positive by the sign of axis k
#   gaps          g_k = (s_k^2 - s_{k+1}^2) / s_0^2, below gap_tol degenerate
# Derivatives of F have 1 / g, replaced by g / (g^2 + eps^2), which vanishes for equal spreads.
def align(
    clouds: CloudRows,
    group: str | None,  # "O", "SO", or None to keep rotations, without flags
    scale: str,  # a key of SCALES
    options: EmbedOptions,
) -> AlignedClouds:
    """Rotate clouds to their principal axes, with signs, scale and flags."""
    rule = _SIGN_RULES[group]
    if options.robust:
        clouds = weighted_by_area(clouds)
    # The op determines signs by third moments about the centroid only.
    by_op = group is None or options.translation
    y, frame, centroid, spread, size, margin = principal_axes(
        clouds.points,
        clouds.ptr,
        clouds.weight,
        options.translation,
        rule if by_op else SignRule.EACH,
        SCALES[scale],
        options.null_tol * clouds.eps,
        _smoothing(clouds, options),
    )
    size = size[:, 0]
    if group is None:
        # Undo the rotation, so that its derivative cancels too.
        y = (y[:, None, :] * clouds.spread_out(frame)).sum(-1)
        identity = torch.eye(frame.shape[-1], dtype=frame.dtype, device=frame.device)
        frame, margin = identity.expand_as(frame), torch.ones_like(margin)
    elif not by_op:
        margin = odd_margins(y, spread, clouds, options)
        sign = torch.where(margin < 0, -1.0, 1.0).to(margin.dtype)
        if rule == SignRule.LEAST:
            left = torch.linalg.det(frame * sign[:, None, :]) < 0
            flip = dependent_axis(margin, spread.logical_not(), rule) & left[:, None]
            sign = torch.where(flip, -sign, sign)
        y, frame = y * clouds.spread_out(sign), frame * sign[:, None, :]
        margin = margin * sign
    if scale == "max":
        # Squares of distances that are no longer than one neither overflow nor vanish.
        first = spread[:, 0].detach()
        first = torch.where(first == 0, 1, first)
        square = (y / clouds.spread_out(first)[:, None]).square().sum(-1)
        largest = clouds.largest(square)
        some = largest > 0
        size = torch.where(some, torch.where(some, largest, 1).sqrt(), 0) * first
        divisor = torch.where(some, size, 1)
        y = y / clouds.spread_out(divisor)[:, None]
    gap_tol = clouds.by_precision(1e-8, 1e-4) if options.gap_tol is None else options.gap_tol
    gap, ambiguous, degenerate, counts = axis_flags_op(
        spread.detach(),
        margin,
        centroid.detach(),
        clouds.ptr,
        clouds.weight,
        int(rule),
        clouds.eps,
        gap_tol,
        sign_tolerance(clouds, options),
    )
    ignored = options.nan_policy == "propagate" and options.fallback not in ("warn", "error")
    # Reading a value waits for the device.
    unread = ignored or not values_readable(counts)
    broken, flagged = (0, 0) if unread else counts.tolist()
    found = (y, frame, centroid, spread, size, margin, gap, ambiguous, degenerate)
    return AlignedClouds(clouds, group, options, *found, broken, flagged)


def _smoothing(clouds: CloudRows, options: EmbedOptions) -> float:
    """Return the gap of squared spreads, relative to the first, that gradients treat as zero."""
    if options.grad == "detach":
        return inf  # all of them: no axis turns
    # The derivative of axes has 1 / gap, here gap / (gap^2 + smoothing^2). In float32 that is about
    # eight roundings; in float64 a safer one costs nothing, as gaps this small are flagged anyway.
    return 1e-10 if clouds.points.dtype == torch.float64 else 1e-6


def sign_tolerance(clouds: CloudRows, options: EmbedOptions) -> float:
    """Return the margin below which a sign is ambiguous for any spectrum."""
    return clouds.by_precision(1e-9, 1e-5) if options.sign_tol is None else options.sign_tol


def odd_margins(
    y: Tensor,  # (rows, dim)
    spread: Tensor,  # (clouds, dim)
    clouds: CloudRows,
    options: EmbedOptions,  # without translation the sum is used, unless it vanishes
) -> Tensor:  # (clouds, dim)
    """Return the margins of coordinates, in [-1, 1], as constants."""
    unit = torch.where(spread == 0, 1, spread).detach()
    standard = (y.detach() / clouds.spread_out(unit)).double()
    margin = power_margin(standard, 3, clouds)
    if not options.translation:
        first = power_margin(standard, 1, clouds)
        margin = torch.where(first.abs() > sign_tolerance(clouds, options), first, margin)
    return margin.to(y.dtype)


def power_margin(y: Tensor, power: int, clouds: CloudRows) -> Tensor:
    """Return sums of an odd power of coordinates over those of magnitudes, (clouds, dim)."""
    terms = y**power
    if clouds.weight is not None:
        terms = clouds.weight.to(y.dtype)[:, None] * terms
    total = clouds.add_up(terms.abs())
    return clouds.add_up(terms) / torch.where(total == 0, 1, total)
