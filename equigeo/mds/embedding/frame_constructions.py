"""Sets of frames of a batch of clouds, each in one way."""

from __future__ import annotations

from dataclasses import replace

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
