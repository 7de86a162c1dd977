"""Equivariant features from components along the axes of frames."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from equigeo.graphs.inputs import as_tensor, kind_of
from equigeo.groups import SO, LinearGroup, O
from equigeo.mds.embedding.frame_set import FrameSet
from equigeo.mds.embedding.mds_result import MDSResult
from equigeo.reps import Points, Representation


def frame_lift(
    h: Tensor,
    frames: FrameSet | MDSResult,
    rep: Representation,
    *,
    power: float = 0.0,
    per_point: bool = False,
) -> Tensor:
    r"""Rotate features from frames to space and average over the frames, (..., dim).

    .. math:: g = \sigma^p \sum_F w_F\, \rho(F)\, h_F

    Parameters
    ----------
    h : Tensor, (frames, ..., dim)
        Components along the axes of each frame, with the batch axes of the frames first; without
        the axis of frames for an ``MDSResult``.
    frames : FrameSet or MDSResult
        An ``MDSResult`` has one frame, which suffices for clouds that are not flagged.
    rep : Representation
        Representation of the features: irreps, tensors, or :class:`equigeo.reps.Points` for
        positions, which are also scaled and translated.
    power : float
        p, the power of length of the features in scaled clouds; 1 for positions in any case.
    per_point : bool
        Whether features of ragged clouds belong to points instead of clouds.

    Equivariance
    ------------
    Equivariant under the group of the frames, where they are exact. Components that a symmetry of
    the cloud forbids, or that depend on the arbitrary directions of null axes, vanish.

    Examples
    --------
    >>> from equigeo.mds import embed
    >>> from equigeo.reps import Irreps
    >>> x = torch.tensor([[0.0, 0, 0], [1, 0, 0], [1, 2, 0], [1, 2, 3]], dtype=torch.float64)
    >>> result = embed(x)
    >>> torch.allclose(frame_lift(result.y, result, Irreps("1o")), x - x.mean(0))
    True
    """
    h = as_tensor(h, "features")
    found = TypedFrames.of(frames, per_point)
    if isinstance(frames, MDSResult):
        h = h[None]
    found = found.fit(h, rep, found.weight.shape)
    if isinstance(rep, Points):
        moved = (found.matrix @ torch.where(found.null, 0, h)[..., None])[..., 0]
    else:
        rep = rep.restrict(found.group)
        moved = rep.act(found.matrix, without_arbitrary(h, found.null, rep, found.group))
    lifted = (found.weight.to(h.dtype) * moved).sum(0)
    if isinstance(rep, Points):
        return found.scale * lifted + found.centroid
    return lifted * found.scale**power if power else lifted


@dataclass(frozen=True, eq=False)
class TypedFrames:
    """Frames of clouds or points, as they act on features."""

    matrix: Tensor  # (frames, ..., dim, dim), axes as columns
    weight: Tensor  # (frames, ...)
    null: Tensor  # (..., dim), bool: arbitrary axes
    centroid: Tensor  # (..., dim)
    scale: Tensor  # (...)
    group: LinearGroup  # group of the frames

    @classmethod
    def of(
        cls,
        frames: FrameSet | MDSResult,
        per_point: bool,  # whether to repeat the frames of ragged clouds per point
    ) -> TypedFrames:
        """Build from a set of frames, or from the frame of an embedding."""
        if not isinstance(frames, (FrameSet, MDSResult)):
            raise TypeError(f"frames must be a FrameSet or an MDSResult, got {kind_of(frames)}")
        if isinstance(frames, FrameSet):
            matrix, weight = frames.frame, frames.weight
        else:
            matrix, weight = frames.frame[None], torch.ones_like(frames.scale)[None]
        if frames.group is None:
            raise ValueError(
                "an embedding that keeps rotations, group=None, has no frames to lift by"
            )
        null, centroid, scale = frames.null, frames.centroid, frames.scale
        if frames.ptr is not None and per_point:
            counts = frames.ptr.diff()
            matrix, weight = (t.repeat_interleave(counts, 1) for t in (matrix, weight))
            null, centroid, scale = (
                t.repeat_interleave(counts, 0) for t in (null, centroid, scale)
            )
        dim = matrix.shape[-1]
        group: LinearGroup = O(dim) if frames.group == "O" else SO(dim)
        return cls(matrix, weight, null, centroid, scale, group)

    def fit(
        self,
        x: Tensor,
        rep: Representation,
        lead: tuple[int, ...],  # expected first axes of x
    ) -> TypedFrames:
        """Validate features (*lead, ..., dim) and insert axes to broadcast against them."""
        if not isinstance(rep, Representation):
            raise TypeError(f"rep must be a Representation, got {kind_of(rep)}")
        dim = self.group.n
        length = dim if isinstance(rep, Points) else rep.dim
        if x.shape[: len(lead)] != lead or x.ndim <= len(lead) or x.shape[-1] != length:
            raise ValueError(
                f"features must be ({', '.join(map(str, (*lead, '...', length)))}), "
                f"got {tuple(x.shape)}"
            )
        extra, clouds = (1,) * (x.ndim - len(lead) - 1), self.weight.shape[1:]
        return replace(
            self,
            matrix=self.matrix.view(*self.weight.shape, *extra, dim, dim),
            weight=self.weight.view(*self.weight.shape, *extra, 1),
            null=self.null.view(*clouds, *extra, dim),
            centroid=self.centroid.view(*clouds, *extra, dim),
            scale=self.scale.view(*clouds, *extra, 1),
        )


def without_arbitrary(
    h: Tensor,  # (frames, ..., dim)
    null: Tensor,  # (..., axes), bool, broadcasts against h
    rep: Representation,  # representation of the features
    group: LinearGroup,  # group of the frames
) -> Tensor:
    """Project features onto components that do not depend on the choice of null axes."""
    if not bool(null.any()):
        return h
    dim = null.shape[-1]
    table = torch.stack([_projection(rep, group, count) for count in range(dim + 1)])
    return (table.to(h)[null.sum(-1)] @ h[..., None])[..., 0]


def _projection(rep: Representation, group: LinearGroup, count: int) -> Tensor:
    """Return the projection onto features that elements acting on the last axes fix."""
    dim = group.n
    first = dim - count
    equations = [torch.zeros(1, rep.dim, dtype=torch.float64)]
    for i in range(first, dim):
        for j in range(i + 1, dim):
            turn = torch.zeros(dim, dim, dtype=torch.float64)
            turn[i, j], turn[j, i] = 1, -1
            equations.append(rep.algebra(turn))
    if count and isinstance(group, O):
        mirror = torch.eye(dim, dtype=torch.float64)
        mirror[-1, -1] = -1
        equations.append(rep.matrix(mirror) - torch.eye(rep.dim, dtype=torch.float64))
    # Fixed are those that the generators of the turns annihilate and a mirror leaves as they are.
    _, values, rows = torch.linalg.svd(torch.cat(equations))
    rank = int((values > 1e-9).sum())  # singular values are 0 or of order 1
    kept = rows[rank:]
    return kept.mT @ kept
