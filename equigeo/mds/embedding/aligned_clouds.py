"""Clouds in their principal axes: the state that embeddings and sets of frames are made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from equigeo.mds.embedding.cloud_rows import CloudRows
from equigeo.mds.embedding.embed_options import EmbedOptions
from equigeo.mds.embedding.frame_set import FrameSet


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
        """Return the clouds, and the numbers of broken and flagged ones."""
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
        # Row by row, as clouds may be ragged.
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
