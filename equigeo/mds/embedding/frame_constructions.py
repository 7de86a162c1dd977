"""Sets of frames of a batch of clouds, each in one way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise, permutations

import torch
from torch import Tensor
from torch.nn import functional as F

from equigeo.mds.embedding.aligned_clouds import AlignedClouds
from equigeo.mds.embedding.anchor_rotations import anchor_rotations
from equigeo.mds.embedding.frame_set import FrameSet
from equigeo.mds.embedding.sign_changes import (
    allowed_signs,
    residual_signs,
    sign_table,
    soft_weights,
)
from equigeo.mds.embedding.weighted_rotations import weighted_rotations


def frames_of_kind(kind: str, aligned: AlignedClouds) -> FrameSet:
    """Make the frames of a kind.

    Parameters
    ----------
    kind : str
        As of :func:`equigeo.mds.frames`.
    aligned : AlignedClouds
        As found.

    Returns
    -------
    FrameSet
        The frames.
    """
    if kind == "anchor":
        return anchor_frames(aligned)
    if kind == "weighted":
        return weighted_frames(aligned)
    if kind == "frames24":
        return ordered_frames(aligned)
    if kind == "soft":
        return signed_frames(aligned, soft_weights(aligned))
    left = residual_signs(aligned) if kind == "joint" else allowed_signs(aligned)
    return signed_frames(aligned, left.to(aligned.y.dtype))


def joint_signs(aligned: AlignedClouds) -> tuple[AlignedClouds, FrameSet]:
    """Take signs from joint moments.

    Parameters
    ----------
    aligned : AlignedClouds
        As found.

    Returns
    -------
    aligned : AlignedClouds
        With the first of the signs that are left; ambiguous are axes of which both are left.
    frames : FrameSet
        All that are left.
    """
    left = residual_signs(aligned)
    table = sign_table(aligned.dim, aligned.spread)
    chosen = table[left.int().argmax(0)]  # the first that is left
    negative = (table[:, None, :] < 0) & left[..., None]
    positive = (table[:, None, :] > 0) & left[..., None]
    ambiguous = negative.any(0) & positive.any(0) & ~aligned.null
    frames = signed_frames(aligned, left.to(aligned.y.dtype))
    return replace(aligned.flipped(chosen), ambiguous=ambiguous), frames


def fallback_frames(aligned: AlignedClouds) -> FrameSet:
    """Give flagged clouds several frames and the others their own.

    Parameters
    ----------
    aligned : AlignedClouds
        With flags, and options that say which frames.

    Returns
    -------
    FrameSet
        One frame for a cloud that is not flagged.
    """
    if aligned.options.fallback == "anchor":
        return anchor_frames(aligned, aligned.doubtful)
    weight = allowed_signs(aligned)
    weight[1:] &= aligned.doubtful
    return signed_frames(aligned, weight.to(aligned.y.dtype))


def signed_frames(aligned: AlignedClouds, weight: Tensor) -> FrameSet:
    """Turn axes around in several ways.

    Parameters
    ----------
    aligned : AlignedClouds
        As found.
    weight : Tensor, (2 ** dim, clouds)
        Of each change of signs, up to a common factor; those of weight zero are left out.

    Returns
    -------
    FrameSet
        With as many frames as the cloud that needs most.
    """
    used = weight.detach() > 0
    count = int(used.sum(0).amax()) if used.shape[1] else 1
    # Signs in use first, in their order: as many rows as the cloud that needs most.
    order = (~used).int().argsort(stable=True, dim=0)[:count]
    total = weight.sum(0)
    weight = weight.gather(0, order) / torch.where(total == 0, 1, total)
    order = torch.where(weight.detach() > 0, order, order[:1])  # repeat one that is in use
    signs = sign_table(aligned.dim, aligned.spread)[order]
    return _frame_set(
        aligned,
        (aligned.y * aligned.clouds.spread_out(s) for s in signs),
        (aligned.frame * s[:, None, :] for s in signs),
        weight,
        exact=~aligned.degenerate.any(-1),
        null=aligned.null,
    )


def ordered_frames(aligned: AlignedClouds) -> FrameSet:
    """Take axes in every order and with every sign.

    Parameters
    ----------
    aligned : AlignedClouds
        As found.

    Returns
    -------
    FrameSet
        In three dimensions 48 frames, 24 of them right-handed.
    """
    dim, y = aligned.dim, aligned.y
    orders = torch.eye(dim, dtype=y.dtype)[torch.tensor(list(permutations(range(dim))))]
    turns = (orders[:, None] * sign_table(dim, orders)[None, :, None, :]).flatten(0, 1)
    if aligned.group == "SO":
        turns = turns[torch.linalg.det(turns) > 0]
    turns = turns.to(y.device)
    return _frame_set(
        aligned,
        (y @ turn for turn in turns),
        (aligned.frame @ turn for turn in turns),
        aligned.scale.new_full((len(turns), len(aligned.scale)), 1 / len(turns)),
        exact=~aligned.degenerate.any(-1),
        null=torch.zeros_like(aligned.null),
    )


def anchor_frames(aligned: AlignedClouds, chosen: Tensor | None = None) -> FrameSet:
    """Span frames by points.

    Parameters
    ----------
    aligned : AlignedClouds
        With options that say how many frames there may be.
    chosen : Tensor, (clouds,), bool, optional
        Clouds to do so for, all by default; others keep their axes.

    Returns
    -------
    FrameSet
        With as many frames as the cloud that needs most.

    Raises
    ------
    ValueError
        If there are more than three dimensions.
    """
    _check_dimension("anchor", aligned.dim)
    tol = _tie_tolerance(aligned)
    most = aligned.options.max_frames

    def span(y: Tensor) -> _Spanned:
        turns, null = anchor_rotations(y, str(aligned.group), tol)
        exact = len(turns) <= most
        if not exact:
            turns = turns[torch.arange(most, device=turns.device) * len(turns) // most]
        return turns, y.new_full((len(turns),), 1 / len(turns)), null, exact

    return _spanned_frames(aligned, span, chosen)


def weighted_frames(aligned: AlignedClouds) -> FrameSet:
    """Span frames by points, with weights that are continuous.

    Parameters
    ----------
    aligned : AlignedClouds
        With options that say how soft the choice is and how many frames there may be.

    Returns
    -------
    FrameSet
        With as many frames as the cloud that needs most.

    Raises
    ------
    ValueError
        If there are more than three dimensions.
    """
    _check_dimension("weighted", aligned.dim)
    options, tol = aligned.options, _tie_tolerance(aligned)

    def span(y: Tensor) -> _Spanned:
        return weighted_rotations(y, str(aligned.group), options.softness, options.max_frames, tol)

    return _spanned_frames(aligned, span)


def _tie_tolerance(aligned: AlignedClouds) -> float:
    """Far above the rounding of coordinates, far below what could be seen."""
    return aligned.clouds.by_precision(1e-6, 1e-3)


def _check_dimension(kind: str, dim: int) -> None:
    if dim > 3:
        raise ValueError(f"{kind} frames are for at most 3 dimensions, got {dim}")


# Rotations (frames, dim, dim), their weights, the number of arbitrary axes, whether all are there.
_Spanned = tuple[Tensor, Tensor, int, bool]


def _spanned_frames(
    aligned: AlignedClouds, span: Callable[[Tensor], _Spanned], chosen: Tensor | None = None
) -> FrameSet:
    """Frames of each cloud that is chosen; the others keep their axes."""
    dim, found, null = aligned.dim, [], aligned.null.clone()
    exact = null.new_ones(len(null))
    for b, (begin, end) in enumerate(pairwise(aligned.clouds.ptr.tolist())):
        if chosen is not None and not bool(chosen[b]):
            identity = torch.eye(dim, dtype=aligned.y.dtype, device=aligned.y.device)
            found.append((identity[None], identity.new_ones(1)))
            continue
        turns, weight, arbitrary, exact[b] = span(aligned.y[begin:end])
        null[b] = torch.arange(dim, device=null.device) >= dim - arbitrary
        found.append((turns, weight))
    return _turned_frames(aligned, found, exact, null)


def _turned_frames(
    aligned: AlignedClouds, found: list[tuple[Tensor, Tensor]], exact: Tensor, null: Tensor
) -> FrameSet:
    """Frames turned by rotations of their own, as many for each cloud as it has."""
    count = max((len(turns) for turns, _ in found), default=1)
    turns = aligned.frame.new_zeros(count, *aligned.frame.shape)
    weight = aligned.scale.new_zeros(count, len(found))
    if found:
        padded = [torch.cat([t, t[:1].expand(count - len(t), -1, -1)]) for t, _ in found]
        turns = torch.stack(padded, 1)
        weight = torch.stack([F.pad(own, (0, count - len(own))) for _, own in found], 1)
    return _frame_set(
        aligned,
        (aligned.seen_in(turn) for turn in turns),
        (aligned.frame @ turn for turn in turns),
        weight,
        exact=exact,
        null=null,
    )


def _frame_set(
    aligned: AlignedClouds,
    y: Iterable[Tensor],
    frame: Iterable[Tensor],
    weight: Tensor,
    *,
    exact: Tensor,
    null: Tensor,
) -> FrameSet:
    """Give everything its batch axes back."""
    clouds = aligned.clouds
    return FrameSet(
        y=torch.stack([clouds.rows(rows) for rows in y]),
        frame=torch.stack([clouds.clouds(axes) for axes in frame]),
        weight=torch.stack([clouds.clouds(w) for w in weight]),
        centroid=clouds.clouds(aligned.centroid),
        scale=clouds.clouds(aligned.scale),
        null=clouds.clouds(null),
        exact=clouds.clouds(exact),
        group=str(aligned.group),
        ptr=clouds.ptr if clouds.ragged else None,
    )
