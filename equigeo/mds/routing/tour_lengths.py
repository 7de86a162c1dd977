"""Lengths of round trips."""

from __future__ import annotations

from torch import Tensor


def tour_lengths(points: Tensor, tours: Tensor) -> Tensor:
    """Measure closed tours.

    Parameters
    ----------
    points : Tensor, (B, cities, dim), floating
        Where the cities are.
    tours : Tensor, (B, tours, cities), int64
        Cities in the order of their visits.

    Returns
    -------
    Tensor, (B, tours), floating
        Sums of Euclidean distances, in the units of the points.

    Equivariance
    ------------
    Invariant under isometries.

    Examples
    --------
    >>> import torch
    >>> square = torch.tensor([[[0.0, 0], [1, 0], [1, 1], [0, 1]]])
    >>> tour_lengths(square, torch.tensor([[[0, 1, 2, 3]]]))
    tensor([[4.]])
    """
    index = tours.flatten(1)[:, :, None].expand(-1, -1, points.shape[-1])
    visited = points.gather(1, index).view(*tours.shape, points.shape[-1])
    return (visited - visited.roll(1, 2)).square().sum(-1).sqrt().sum(-1)
