"""Sets of frames of a batch of clouds, each in one way."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import torch
from torch import Tensor

from equigeo.mds.embedding.aligned_clouds import AlignedClouds
from equigeo.mds.embedding.cloud_frames import anchor_frames, plane_frames, weighted_frames
from equigeo.mds.embedding.frame_set import FrameSet
from equigeo.mds.embedding.sign_changes import (
    allowed_signs,
    residual_signs,
    sign_table,
    soft_weights,
)


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
    if kind in ("harmonic", "quad"):
        return plane_frames(aligned, kind)
    if kind == "frames24":
        return ordered_frames(aligned)
    if kind == "soft":
        return signed_frames(aligned, soft_weights(aligned))
    if kind == "joint":
        left, settled = residual_signs(aligned)
        return signed_frames(aligned, left.to(aligned.y.dtype), settled)
    return signed_frames(aligned, allowed_signs(aligned).to(aligned.y.dtype))


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
    left, settled = residual_signs(aligned)
    table = sign_table(aligned.dim, aligned.spread)
    chosen = table[left.int().argmax(0)]  # the first that is left
    negative = (table[:, None, :] < 0) & left[..., None]
    positive = (table[:, None, :] > 0) & left[..., None]
    ambiguous = negative.any(0) & positive.any(0) & ~aligned.null
    frames = signed_frames(aligned, left.to(aligned.y.dtype), settled)
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


def signed_frames(
    aligned: AlignedClouds, weight: Tensor, settled: Tensor | None = None
) -> FrameSet:
    """Turn axes around in several ways.

    Parameters
    ----------
    aligned : AlignedClouds
        As found.
    weight : Tensor, (2 ** dim, clouds)
        Of each change of signs, up to a common factor; those of weight zero are left out.
    settled : Tensor, (clouds,), bool, optional
        Whether rounding cannot change the weights; by default it cannot.

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
    simple = ~aligned.degenerate.any(-1)
    return aligned.frame_set(
        (aligned.y * aligned.clouds.spread_out(s) for s in signs),
        (aligned.frame * s[:, None, :] for s in signs),
        weight,
        exact=simple if settled is None else simple & settled,
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
    return aligned.frame_set(
        (y @ turn for turn in turns),
        (aligned.frame @ turn for turn in turns),
        aligned.scale.new_full((len(turns), len(aligned.scale)), 1 / len(turns)),
        exact=~aligned.degenerate.any(-1),
        null=torch.zeros_like(aligned.null),
    )
