"""Neighbours of points, as group samples see them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class PointNeighbors(NamedTuple):
    """Which points a convolution reads at every centre and sample, and where they lie.

    Parameters
    ----------
    indices : Tensor, (B, M, Q, k), int64
        Positions in the cloud; ``M`` is 1 where all samples have the same neighbours, else N.
    weight : Tensor, (B, M, Q, k), floating
        One over the number of neighbours, and 0 for those that are none.
    u : Tensor, (B, N, Q, k, n), floating
        Relative displacements :math:`h_a^{-1}(x_j - x_i)`, in radii.
    """

    indices: Tensor
    weight: Tensor
    u: Tensor

    def take(self, rows: Tensor) -> Tensor:
        """Collect what is stored at the neighbours.

        Parameters
        ----------
        rows : Tensor, (B, P, *F)
            One row per point.

        Returns
        -------
        Tensor, (B, M, Q, k, *F), dtype of ``rows``
            One row per neighbour.
        """
        return take_rows(rows, self.indices)


def take_rows(rows: Tensor, indices: Tensor) -> Tensor:
    """Collect rows of each cloud.

    Parameters
    ----------
    rows : Tensor, (B, P, *F)
        One row per point.
    indices : Tensor, (B, *I), int64
        Rows of the cloud of the same batch entry.

    Returns
    -------
    Tensor, (B, *I, *F), dtype of ``rows``
        The rows.
    """
    batch, points = rows.shape[:2]
    shift = points * torch.arange(batch, device=indices.device)
    shift = shift.view(-1, *[1] * (indices.ndim - 1))
    chosen = rows.flatten(0, 1).index_select(0, (indices + shift).flatten())
    return chosen.view(*indices.shape, *rows.shape[2:])
