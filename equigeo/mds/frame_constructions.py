"""Constructions of the sets of frames of a batch of clouds, one per kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from equigeo.mds.align import AlignedClouds
from equigeo.mds.options import FrameSet
from equigeo.mds.rotations import (
    anchor_rotations,
    harmonic_angles,
    plane_rotations,
    signs_across,
    weighted_rotations,
)
from equigeo.mds.signs import (
    allowed_signs,
    errors_of_axes,
    residual_signs,
    sign_table,
    soft_weights,
)

# Rotations (frames, dim, dim), their weights, the number of arbitrary axes, whether all are there.
_Found = tuple[Tensor, Tensor, int, bool]


def frames_of_kind(
    kind: str,  # as in equigeo.mds.frames
    aligned: AlignedClouds,
) -> FrameSet:
    """Return the frames of a kind."""
    if kind == "anchor":
        return anchor_frames(aligned)
    if kind == "weighted":
        return weighted_frames(aligned)
    if kind == "harmonic":
        return plane_frames(aligned)
    if kind == "soft":
        return signed_frames(aligned, soft_weights(aligned))
    if kind == "joint":
        left, settled = residual_signs(aligned)
        return signed_frames(aligned, left.to(aligned.y.dtype), settled)
    return signed_frames(aligned, allowed_signs(aligned).to(aligned.y.dtype))


def joint_signs(aligned: AlignedClouds) -> tuple[AlignedClouds, FrameSet]:
    """Choose signs by joint moments; return clouds and all frames that remain."""
    left, settled = residual_signs(aligned)
    table = sign_table(aligned.dim, aligned.spread)
    chosen = table[left.int().argmax(0)]  # the first that is left
    negative = (table[:, None, :] < 0) & left[..., None]
    positive = (table[:, None, :] > 0) & left[..., None]
    # Ambiguous are axes for which both signs remain.
    ambiguous = negative.any(0) & positive.any(0) & ~aligned.null
    frames = signed_frames(aligned, left.to(aligned.y.dtype), settled)
    return replace(aligned.flipped(chosen), ambiguous=ambiguous), frames


def fallback_frames(aligned: AlignedClouds) -> FrameSet:
    """Return several frames for flagged clouds and one for the others."""
    if aligned.options.fallback == "anchor":
        return anchor_frames(aligned, aligned.doubtful)
    weight = allowed_signs(aligned)
    weight[1:] &= aligned.doubtful
    return signed_frames(aligned, weight.to(aligned.y.dtype))


def signed_frames(
    aligned: AlignedClouds,
    weight: Tensor,  # (2 ** dim, clouds), unnormalised; zero weights are dropped
    # (clouds,), bool: rounding cannot change the weights, by default True
    settled: Tensor | None = None,
) -> FrameSet:
    """Return frames with flipped axes, as many as the cloud with most."""
    used = weight.detach() > 0
    count = int(used.sum(0).amax()) if used.shape[1] else 1
    # Signs in use first, in their order: as many rows as the cloud that needs most.
    order = (~used).int().argsort(stable=True, dim=0)[:count]
    total = weight.sum(0)
    weight = weight.gather(0, order) / torch.where(total == 0, 1, total)
    order = torch.where(weight.detach() > 0, order, order[:1])  # repeat one that is in use
    signs = sign_table(aligned.dim, aligned.spread)[order]
    simple = ~aligned.degenerate.any(-1)
    return aligned.frame_set(
        (aligned.y * aligned.clouds.spread_out(s) for s in signs),
        (aligned.frame * s[:, None, :] for s in signs),
        weight,
        exact=simple if settled is None else simple & settled,
        null=aligned.null,
    )


def anchor_frames(
    aligned: AlignedClouds,
    chosen: Tensor | None = None,  # (clouds,), bool; other clouds keep their axes
) -> FrameSet:
    """Return frames spanned by points, at most ``max_frames`` per cloud."""
    _check_dimension("anchor", aligned.dim)
    tol = _tie_tolerance(aligned)
    most = aligned.options.max_frames

    def span(_: int, y: Tensor) -> _Found:
        turns, null = anchor_rotations(y, str(aligned.group), tol)
        exact = len(turns) <= most
        if not exact:
            turns = turns[torch.arange(most, device=turns.device) * len(turns) // most]
        return turns, y.new_full((len(turns),), 1 / len(turns)), null, exact

    return _frames_of_clouds(aligned, span, chosen)


def weighted_frames(aligned: AlignedClouds) -> FrameSet:
    """Return frames spanned by points, with weights that are continuous in the points."""
    _check_dimension("weighted", aligned.dim)
    options, tol = aligned.options, _tie_tolerance(aligned)

    def span(_: int, y: Tensor) -> _Found:
        return weighted_rotations(y, str(aligned.group), options.softness, options.max_frames, tol)

    return _frames_of_clouds(aligned, span)


def plane_frames(aligned: AlignedClouds) -> FrameSet:
    """Return frames rotated in the plane of two axes with equal spread."""
    _check_dimension("harmonic", aligned.dim)
    options, group = aligned.options, str(aligned.group)
    (left, settled), table = residual_signs(aligned), sign_table(aligned.dim, aligned.spread)
    errors = errors_of_axes(aligned)
    begins, weight = aligned.clouds.ptr.tolist(), aligned.clouds.weight
    tol = aligned.clouds.by_precision(1e-9, 1e-5)  # as of joint moments

    # Clouds with a simple spectrum have the frames that joint moments leave, and so do those with
    # more than two equal spreads, which are not exact.
    def turn(b: int, y: Tensor) -> _Found:
        null = int(aligned.null[b].sum())
        turns = torch.diag_embed(table[left[:, b]])
        planes = aligned.degenerate[b].nonzero()[:, 0].tolist()
        found = not planes and bool(settled[b])
        if len(planes) == 1:
            first, mass = planes[0], None if weight is None else weight[begins[b] : begins[b + 1]]
            flips = signs_across(y, mass, first, group, (tol, errors[b]))
            turns = plane_rotations(y.new_zeros(1), first, flips, group)
            # Left-handed frames, or signs across the plane, go with every angle.
            most = options.max_frames // len(turns)
            angles = harmonic_angles(y, mass, first, most, (tol, errors[b]))
            found = angles is not None
            if angles is not None:
                turns = plane_rotations(angles, first, flips, group)
        return turns, y.new_full((len(turns),), 1 / len(turns)), null, found

    return _frames_of_clouds(aligned, turn)


def _tie_tolerance(aligned: AlignedClouds) -> float:
    """Return a tolerance well above coordinate rounding and well below visible differences."""
    return aligned.clouds.by_precision(1e-6, 1e-3)


def _check_dimension(kind: str, dim: int) -> None:
    if dim > 3:
        raise ValueError(f"{kind} frames are for at most 3 dimensions, got {dim}")


def _frames_of_clouds(
    aligned: AlignedClouds, find: Callable[[int, Tensor], _Found], chosen: Tensor | None = None
) -> FrameSet:
    """Return frames of each selected cloud; the others keep their axes."""
    dim, found, null = aligned.dim, [], aligned.null.clone()
    exact = null.new_ones(len(null))
    for b, (begin, end) in enumerate(pairwise(aligned.clouds.ptr.tolist())):
        if chosen is not None and not bool(chosen[b]):
            identity = torch.eye(dim, dtype=aligned.y.dtype, device=aligned.y.device)
            found.append((identity[None], identity.new_ones(1)))
            continue
        turns, weight, arbitrary, exact[b] = find(b, aligned.y[begin:end])
        null[b] = torch.arange(dim, device=null.device) >= dim - arbitrary
        found.append((turns, weight))
    return _turned_frames(aligned, found, exact, null)


def _turned_frames(
    aligned: AlignedClouds, found: list[tuple[Tensor, Tensor]], exact: Tensor, null: Tensor
) -> FrameSet:
    """Return frames rotated per cloud, with different numbers of rotations."""
    count = max((len(turns) for turns, _ in found), default=1)
    turns = aligned.frame.new_zeros(count, *aligned.frame.shape)
    weight = aligned.scale.new_zeros(count, len(found))
    if found:
        padded = [torch.cat([t, t[:1].expand(count - len(t), -1, -1)]) for t, _ in found]
        turns = torch.stack(padded, 1)
        weight = torch.stack([F.pad(own, (0, count - len(own))) for _, own in found], 1)
    return aligned.frame_set(
        (aligned.seen_in(turn) for turn in turns),
        (aligned.frame @ turn for turn in turns),
        weight,
        exact=exact,
        null=null,
    )
