"""Rotation of clouds to their principal axes, with signs, scale and flags."""

# With centred points X - c = U diag(s) F^T (singular value decomposition; s is the spread):
#   coordinates   y = (X - c) F / sigma
#   margins       m_k = sum_i w_i y_ik^3 / sum_i w_i |y_ik|^3, made positive by the sign of axis k
#   gaps          g_k = (s_k^2 - s_{k+1}^2) / s_0^2, below gap_tol degenerate
# Derivatives of F have 1 / g, replaced by g / (g^2 + eps^2), which vanishes for equal spreads.

from __future__ import annotations

from math import inf
from typing import Final

import torch
from torch import Tensor

from equigeo.mds.embedding.aligned_clouds import AlignedClouds
from equigeo.mds.embedding.cloud_rows import CloudRows
from equigeo.mds.embedding.embed_options import EmbedOptions
from equigeo.ops import ScaleRule, SignRule, axis_flags, principal_axes
from equigeo.ops.clouds.axis_flags import dependent_axis
from equigeo.ops.runtime.torch_internals import values_readable

SCALES: Final = {
    "none": ScaleRule.UNSCALED,
    "rms": ScaleRule.RMS,
    "lambda1": ScaleRule.FIRST,
    "rms_dist": ScaleRule.PAIRS,
    "max": ScaleRule.UNSCALED,  # divided afterwards
}
_SIGN_RULES: Final = {"O": SignRule.EACH, "SO": SignRule.LEAST, None: SignRule.AS_FOUND}


def align(
    clouds: CloudRows,
    group: str | None,  # "O", "SO", or None to keep rotations, without flags
    scale: str,  # a key of SCALES
    options: EmbedOptions,
) -> AlignedClouds:
    """Rotate clouds to their principal axes, with signs, scale and flags."""
    rule = _SIGN_RULES[group]
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
        y = _rotated_back(y, frame, clouds)
        identity = torch.eye(frame.shape[-1], dtype=frame.dtype, device=frame.device)
        frame, margin = identity.expand_as(frame), torch.ones_like(margin)
    elif not by_op:
        margin = odd_margins(y, spread, clouds, options)
        sign = _signs(margin, frame, spread, rule)
        y, frame = y * clouds.spread_out(sign), frame * sign[:, None, :]
        margin = margin * sign
    if scale == "max":
        y, size = _divided_by_largest(y, spread, clouds)
    gap, ambiguous, degenerate, counts = axis_flags(
        spread.detach(),
        margin,
        centroid.detach(),
        clouds.ptr,
        clouds.weight,
        rule,
        (clouds.eps, _gap_tolerance(clouds, options), sign_tolerance(clouds, options)),
    )
    ignored = options.nan_policy == "propagate" and options.fallback not in ("warn", "error")
    # Reading a value waits for the device.
    unread = ignored or not values_readable(counts)
    broken, flagged = (0, 0) if unread else counts.tolist()
    return AlignedClouds(
        clouds=clouds,
        group=group,
        options=options,
        y=y,
        frame=frame,
        centroid=centroid,
        spread=spread,
        scale=size,
        margin=margin,
        gap=gap,
        ambiguous=ambiguous,
        degenerate=degenerate,
        broken=broken,
        flagged=flagged,
    )


def _smoothing(clouds: CloudRows, options: EmbedOptions) -> float:
    """Return the gap of squared spreads, relative to the first, that gradients treat as zero."""
    if options.grad == "detach":
        return inf  # all of them: no axis turns
    # The derivative of axes has 1 / gap, here gap / (gap^2 + smoothing^2). In float32 that is about
    # eight roundings; in float64 a safer one costs nothing, as gaps this small are flagged anyway.
    return 1e-10 if clouds.points.dtype == torch.float64 else 1e-6


def _gap_tolerance(clouds: CloudRows, options: EmbedOptions) -> float:
    return clouds.by_precision(1e-8, 1e-4) if options.gap_tol is None else options.gap_tol


def sign_tolerance(clouds: CloudRows, options: EmbedOptions) -> float:
    """Return the margin below which a sign is ambiguous for any spectrum."""
    return clouds.by_precision(1e-9, 1e-5) if options.sign_tol is None else options.sign_tol


def _rotated_back(y: Tensor, frame: Tensor, clouds: CloudRows) -> Tensor:
    """Undo the rotation, so that its derivative cancels too."""
    return (y[:, None, :] * clouds.spread_out(frame)).sum(-1)


def _divided_by_largest(y: Tensor, spread: Tensor, clouds: CloudRows) -> tuple[Tensor, Tensor]:
    """Return coordinates over the largest distance from the centroid, and that distance."""
    # Squares of distances that are no longer than one neither overflow nor vanish.
    first = spread[:, 0].detach()
    first = torch.where(first == 0, 1, first)
    square = (y / clouds.spread_out(first)[:, None]).square().sum(-1)
    largest = clouds.largest(square)
    some = largest > 0
    size = torch.where(some, torch.where(some, largest, 1).sqrt(), 0) * first
    divisor = torch.where(some, size, 1)
    return y / clouds.spread_out(divisor)[:, None], size


def odd_margins(
    y: Tensor,  # (rows, dim)
    spread: Tensor,  # (clouds, dim)
    clouds: CloudRows,
    options: EmbedOptions,  # without translation the sum is used, unless it vanishes
) -> Tensor:  # (clouds, dim)
    """Return the margins of coordinates, in [-1, 1], as constants."""
    unit = torch.where(spread == 0, 1, spread).detach()
    standard = (y.detach() / clouds.spread_out(unit)).double()
    margin = _power_margin(standard, 3, clouds)
    if not options.translation:
        first = _power_margin(standard, 1, clouds)
        margin = torch.where(first.abs() > sign_tolerance(clouds, options), first, margin)
    return margin.to(y.dtype)


def _power_margin(y: Tensor, power: int, clouds: CloudRows) -> Tensor:
    terms = y**power
    if clouds.weight is not None:
        terms = clouds.weight.double()[:, None] * terms
    total = clouds.add_up(terms.abs())
    return clouds.add_up(terms) / torch.where(total == 0, 1, total)


def _signs(margin: Tensor, frame: Tensor, spread: Tensor, rule: SignRule) -> Tensor:
    """Return signs (clouds, dim) that make margins positive, and frames right-handed for SO."""
    sign = torch.where(margin < 0, -1.0, 1.0).to(margin.dtype)
    if rule == SignRule.LEAST:
        left = torch.linalg.det(frame * sign[:, None, :]) < 0
        flip = dependent_axis(margin, spread.logical_not(), rule) & left[:, None]
        sign = torch.where(flip, -sign, sign)
    return sign
