"""Result of an embedding."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.mds.embedding.frame_set import FrameSet


@dataclass(frozen=True, eq=False, repr=False)
class MDSResult:
    r"""Invariant coordinates, and the transformation to reconstruct the points.

    .. math:: y_i = (x_i - c)\, F / \sigma

    Batch axes are those of the points, or one axis over the clouds with ``ptr`` or ``batch``.

    Parameters
    ----------
    y : Tensor, (..., points, dim)
        Coordinates, in the units of the points if not scaled.
    frame : Tensor, (..., dim, dim)
        Axes as columns, in descending order of spread.
    centroid : Tensor, (..., dim)
        c, in the units of the points.
    scale : Tensor, (...)
        σ; 1 without scaling, 0 for coincident points, which are not divided by it.
    spread : Tensor, (..., dim)
        Root of the sum of squared coordinates per axis, before scaling.
    margin : Tensor, (..., dim)
        Statistic in [-1, 1] that determined the sign of each axis, with its previous sign;
        constant.
    gap : Tensor, (..., dim - 1)
        Differences of adjacent eigenvalues, relative to the first; constant.
    null : Tensor, (..., dim), bool
        Axes without spread: zero coordinates and an arbitrary direction.
    ambiguous : Tensor, (..., dim), bool
        Axes with a sign that rounding may change.
    degenerate : Tensor, (..., dim - 1), bool
        Adjacent axes that rounding may mix.
    group : {"O", "SO", None}
        As given to :func:`embed`.
    frames : FrameSet, optional
        Frames to average over.
    ptr : Tensor, (clouds + 1,), int64, optional
        Offsets of ragged clouds.

    Examples
    --------
    >>> from equigeo.mds import embed
    >>> result = embed(torch.tensor([[0.0, 0.0], [4.0, 0.0], [0.0, 3.0]]))
    >>> [round(value, 3) for value in result.eigvals.tolist()]
    [12.964, 3.703]
    """

    y: Tensor
    frame: Tensor
    centroid: Tensor
    scale: Tensor
    spread: Tensor
    margin: Tensor
    gap: Tensor
    null: Tensor
    ambiguous: Tensor
    degenerate: Tensor
    group: str | None
    frames: FrameSet | None = None
    ptr: Tensor | None = None

    def __repr__(self) -> str:
        """Return shapes and flags."""
        flagged = "" if self.y.is_meta else f", flagged={int(self.flagged.sum())}"
        frames = "" if self.frames is None else f", frames={len(self.frames)}"
        return (
            f"MDSResult(y={tuple(self.y.shape)} {self.y.dtype}, clouds={self.scale.numel()}"
            f"{flagged}, group={self.group!r}{frames})"
        )

    @property
    def eigvals(self) -> Tensor:
        """Squares of ``spread``, clamped to finite: eigenvalues of the scatter, (..., dim)."""
        return self.spread.square().clamp(max=torch.finfo(self.spread.dtype).max)

    @property
    def flagged(self) -> Tensor:
        """Mask of clouds, (...), with embeddings that are not invariant up to rounding."""
        return self.ambiguous.any(-1) | self.degenerate.any(-1)
