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
    r"""Clouds seen in their principal axes, with what rounding may change about these.

    .. math:: y_i = (x_i - c)\, F / \sigma

    Batch axes are flat: :class:`CloudRows` knows them.

    Parameters
    ----------
    clouds : CloudRows
        The points that were given.
    group : {"O", "SO", None}
        Which rotations are divided out.
    options : EmbedOptions
        How.
    y : Tensor, (rows, dim)
        Coordinates.
    frame : Tensor, (clouds, dim, dim)
        F, axes as columns.
    centroid, spread, margin : Tensor, (clouds, dim)
        As of :class:`equigeo.mds.MDSResult`.
    scale : Tensor, (clouds,)
        σ, as there.
    gap : Tensor, (clouds, dim - 1)
        As there.
    ambiguous : Tensor, (clouds, dim), bool
        Axes whose sign rounding may change.
    degenerate : Tensor, (clouds, dim - 1), bool
        Neighbouring axes that it may turn into each other.
    broken, flagged : int
        How many clouds are not finite, and how many had a flag at first; zero where nobody asks.
    """

    clouds: CloudRows
    group: str | None
    options: EmbedOptions
    y: Tensor
    frame: Tensor
    centroid: Tensor
    spread: Tensor
    scale: Tensor
    margin: Tensor
    gap: Tensor
    ambiguous: Tensor
    degenerate: Tensor
    broken: int
    flagged: int

    def __repr__(self) -> str:
        """Return the clouds, and how many of them are broken or flagged."""
        return f"AlignedClouds({self.clouds}, broken={self.broken}, flagged={self.flagged})"

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.spread.shape[-1]

    @property
    def null(self) -> Tensor:
        """Axes along which nothing spreads, (clouds, dim), bool."""
        return self.spread.logical_not()

    @property
    def doubtful(self) -> Tensor:
        """Clouds whose frame rounding may change, (clouds,), bool."""
        return self.ambiguous.any(-1) | self.degenerate.any(-1)

    def flipped(self, sign: Tensor) -> AlignedClouds:
        """Turn axes around.

        Parameters
        ----------
        sign : Tensor, (clouds, dim)
            1 or -1.

        Returns
        -------
        AlignedClouds
            With other coordinates, frames and margins.
        """
        return replace(
            self,
            y=self.y * self.clouds.spread_out(sign),
            frame=self.frame * sign[:, None, :],
            margin=self.margin * sign,
        )

    def seen_in(self, turn: Tensor) -> Tensor:
        """Give coordinates in other axes.

        Parameters
        ----------
        turn : Tensor, (clouds, dim, dim)
            Columns are the axes, in the present ones.

        Returns
        -------
        Tensor, (rows, dim)
            Coordinates.
        """
        # Row by row, as clouds may be ragged.
        return (self.y[:, :, None] * self.clouds.spread_out(turn)).sum(1)

    def frame_set(
        self,
        y: Iterable[Tensor],
        frame: Iterable[Tensor],
        weight: Tensor,
        *,
        exact: Tensor,
        null: Tensor,
    ) -> FrameSet:
        """Collect frames, with the batch axes that the points were given with.

        Parameters
        ----------
        y, frame : iterable of Tensor, (rows, dim) and (clouds, dim, dim)
            Coordinates and axes, for each frame.
        weight : Tensor, (frames, clouds)
            Of each.
        exact : Tensor, (clouds,), bool
            As of the set.
        null : Tensor, (clouds, dim), bool
            As of the set.

        Returns
        -------
        FrameSet
            All of them.
        """
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
