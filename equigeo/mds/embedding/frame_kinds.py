"""Sets of frames of a batch of clouds."""

from __future__ import annotations

from itertools import pairwise, permutations
from typing import Any

import torch
from torch import Tensor

from equigeo.mds.embedding.anchor_frames import anchor_rotations
from equigeo.mds.embedding.cloud_rows import PointClouds
from equigeo.mds.embedding.embed_options import EmbedOptions
from equigeo.mds.embedding.frame_set import FrameSet
from equigeo.mds.embedding.sign_frames import (
    allowed_signs,
    residual_signs,
    sign_table,
    soft_weights,
)
from equigeo.mds.embedding.signed_axes import Axes


def residual_frames(
    axes: Axes, clouds: PointClouds, group: str, degenerate: Tensor
) -> tuple[Axes, Tensor, FrameSet]:
    """Take signs from joint moments.

    Parameters
    ----------
    axes : Axes
        As found.
    clouds : PointClouds
        The points.
    group : {"O", "SO"}
        Whether frames may be left-handed.
    degenerate : Tensor, (clouds, dim - 1), bool
        As of the embedding.

    Returns
    -------
    axes : Axes
        With the first of the signs that are left.
    ambiguous : Tensor, (clouds, dim), bool
        Axes of which both signs are left.
    frames : FrameSet
        All that are left.
    """
    left = residual_signs(axes, clouds, group)
    table = sign_table(axes.spread.shape[-1], axes.spread)
    chosen = table[left.int().argmax(0)]
    negative = (table[:, None, :] < 0) & left[..., None]
    positive = (table[:, None, :] > 0) & left[..., None]
    ambiguous = negative.any(0) & positive.any(0) & ~axes.null
    frames = signed_frames(axes, clouds, group, left.to(axes.y.dtype), degenerate)
    return axes.signed(chosen, clouds), ambiguous, frames


def signed_frames(
    axes: Axes, clouds: PointClouds, group: str, weight: Tensor, degenerate: Tensor
) -> FrameSet:
    """Turn axes around in several ways.

    Parameters
    ----------
    axes : Axes
        As found.
    clouds : PointClouds
        The points.
    group : {"O", "SO"}
        Whether frames may be left-handed.
    weight : Tensor, (2 ** dim, clouds)
        Of each change of signs, up to a common factor; those of weight zero are left out.
    degenerate : Tensor, (clouds, dim - 1), bool
        As of the embedding.

    Returns
    -------
    FrameSet
        With as many frames as the cloud that needs most.
    """
    table = sign_table(axes.spread.shape[-1], axes.spread)
    used = weight.detach() > 0
    count = int(used.sum(0).amax()) if used.shape[1] else 1
    order = (~used).int().argsort(stable=True, dim=0)[:count]
    total = weight.sum(0)
    weight = weight.gather(0, order) / torch.where(total == 0, 1, total)
    order = torch.where(weight.detach() > 0, order, order[:1])  # repeat one that is in use
    signs = table[order]
    return FrameSet(
        y=torch.stack([clouds.rows(axes.y * clouds.spread_out(s)) for s in signs]),
        frame=torch.stack([clouds.clouds(axes.frame * s[:, None, :]) for s in signs]),
        weight=torch.stack([clouds.clouds(w) for w in weight]),
        exact=clouds.clouds(~degenerate.any(-1)),
        **_common(axes, clouds, group),
    )


def ordered_frames(axes: Axes, clouds: PointClouds, group: str, degenerate: Tensor) -> FrameSet:
    """Take axes in every order and with every sign.

    Parameters
    ----------
    axes : Axes
        As found.
    clouds : PointClouds
        The points.
    group : {"O", "SO"}
        Whether frames may be left-handed.
    degenerate : Tensor, (clouds, dim - 1), bool
        As of the embedding.

    Returns
    -------
    FrameSet
        In three dimensions 48 frames, 24 of them right-handed.
    """
    dim = axes.spread.shape[-1]
    orders = torch.eye(dim, dtype=axes.y.dtype)[torch.tensor(list(permutations(range(dim))))]
    turns = (orders[:, None] * sign_table(dim, orders)[None, :, None, :]).flatten(0, 1)
    if group == "SO":
        turns = turns[torch.linalg.det(turns) > 0]
    turns = turns.to(axes.y.device)
    common = _common(axes, clouds, group)
    weight = axes.scale.new_full((len(turns), *clouds.batch), 1 / len(turns))
    null = torch.zeros_like(common.pop("null"))
    return FrameSet(
        y=torch.stack([clouds.rows(axes.y @ turn) for turn in turns]),
        frame=torch.stack([clouds.clouds(axes.frame @ turn) for turn in turns]),
        weight=weight,
        exact=clouds.clouds(~degenerate.any(-1)),
        null=null,
        **common,
    )


def anchor_frames(
    axes: Axes,
    clouds: PointClouds,
    group: str,
    options: EmbedOptions,
    flagged: Tensor | None = None,
) -> FrameSet:
    """Span frames by points.

    Parameters
    ----------
    axes : Axes
        As found.
    clouds : PointClouds
        The points.
    group : {"O", "SO"}
        Whether frames may be left-handed.
    options : EmbedOptions
        How many frames there may be.
    flagged : Tensor, (clouds,), bool, optional
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
    dim = axes.spread.shape[-1]
    if dim > 3:
        raise ValueError(f"anchor frames are for at most 3 dimensions, got {dim}")
    tol = 1e-6 if clouds.eps == torch.finfo(torch.float64).eps else 1e-3
    found, null, exact = [], axes.null.clone(), axes.null.new_ones(len(axes.null))
    for b, (begin, end) in enumerate(pairwise(clouds.ptr.tolist())):
        if flagged is not None and not bool(flagged[b]):
            found.append(torch.eye(dim, dtype=axes.y.dtype, device=axes.y.device)[None])
            continue
        turns, arbitrary = anchor_rotations(axes.y[begin:end], group, tol)
        null[b] = torch.arange(dim, device=null.device) >= dim - arbitrary
        if len(turns) > options.max_frames:
            exact[b] = False
            step = torch.arange(options.max_frames, device=turns.device)
            turns = turns[step * len(turns) // options.max_frames]
        found.append(turns)
    count = max((len(turns) for turns in found), default=1)
    return _turned(axes, clouds, found, count, exact=exact, null=null, group=group)


def _turned(
    axes: Axes,
    clouds: PointClouds,
    found: list[Tensor],
    count: int,
    *,
    exact: Tensor,
    null: Tensor,
    group: str,
) -> FrameSet:
    """Frames turned by rotations of their own, as many for each cloud as it has."""
    turns = axes.frame.new_zeros(count, *axes.frame.shape)
    weight = axes.scale.new_zeros(count, len(found))
    if found:
        padded = [torch.cat([t, t[:1].expand(count - len(t), -1, -1)]) for t in found]
        turns = torch.stack(padded, 1)
        for b, own in enumerate(found):
            weight[: len(own), b] = 1 / len(own)
    y = [(axes.y[:, :, None] * clouds.spread_out(t)).sum(1) for t in turns]
    common = _common(axes, clouds, group) | {"null": clouds.clouds(null)}
    return FrameSet(
        y=torch.stack([clouds.rows(rows) for rows in y]),
        frame=torch.stack([clouds.clouds(axes.frame @ t) for t in turns]),
        weight=torch.stack([clouds.clouds(w) for w in weight]),
        exact=clouds.clouds(exact),
        **common,
    )


def fallback_frames(
    axes: Axes,
    clouds: PointClouds,
    group: str,
    ambiguous: Tensor,
    degenerate: Tensor,
    options: EmbedOptions,
) -> FrameSet:
    """Give flagged clouds several frames and the others their own.

    Parameters
    ----------
    axes : Axes
        As found.
    clouds : PointClouds
        The points.
    group : {"O", "SO"}
        Whether frames may be left-handed.
    ambiguous : Tensor, (clouds, dim), bool
        As of the embedding.
    degenerate : Tensor, (clouds, dim - 1), bool
        As of the embedding.
    options : EmbedOptions
        Which frames.

    Returns
    -------
    FrameSet
        One frame for a cloud that is not flagged.
    """
    flagged = ambiguous.any(-1) | degenerate.any(-1)
    if options.fallback == "anchor":
        return anchor_frames(axes, clouds, group, options, flagged)
    weight = allowed_signs(axes, group)
    weight[1:] &= flagged
    return signed_frames(axes, clouds, group, weight.to(axes.y.dtype), degenerate)


def sets_of(
    kind: str,
    axes: Axes,
    clouds: PointClouds,
    group: str,
    degenerate: Tensor,
    options: EmbedOptions,
) -> FrameSet:
    """Make the frames of a kind.

    Parameters
    ----------
    kind : str
        As of :func:`equigeo.mds.frames`.
    axes : Axes
        As found.
    clouds : PointClouds
        The points.
    group : {"O", "SO"}
        Whether frames may be left-handed.
    degenerate : Tensor, (clouds, dim - 1), bool
        As of the embedding.
    options : EmbedOptions
        The rest.

    Returns
    -------
    FrameSet
        The frames.
    """
    if kind == "anchor":
        return anchor_frames(axes, clouds, group, options)
    if kind == "frames24":
        return ordered_frames(axes, clouds, group, degenerate)
    if kind == "joint":
        weight = residual_signs(axes, clouds, group).to(axes.y.dtype)
    elif kind == "soft":
        weight = soft_weights(axes, clouds, group, options.softness)
    else:
        weight = allowed_signs(axes, group).to(axes.y.dtype)
    return signed_frames(axes, clouds, group, weight, degenerate)


def _common(axes: Axes, clouds: PointClouds, group: str) -> dict[str, Any]:
    return {
        "centroid": clouds.clouds(axes.centroid),
        "scale": clouds.clouds(axes.scale),
        "null": clouds.clouds(axes.null),
        "group": group,
        "ptr": clouds.ptr if clouds.ragged else None,
    }
