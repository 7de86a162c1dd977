"""Transformed copies of instances of the travelling-salesman problem."""

from __future__ import annotations

from typing import Final

from torch import Tensor

from equigeo.tasks.measures.cloud_copies import cloud_copies

TOUR_COPIES: Final = ("rotated", "reflected", "scaled", "translated", "all of these")

_CENTRE = 0.5


def tour_copies(cities: Tensor, kind: str, seed: int = 0) -> Tensor:
    """Draw a transformed copy of every instance.

    Rotations, reflections and scalings leave the centre of the unit square where it is;
    ``all of these`` turns, reflects, scales and moves.

    Parameters
    ----------
    cities : Tensor, (B, cities, 2), float64
        The originals.
    kind : str
        One of ``TOUR_COPIES``; see :func:`equigeo.tasks.measures.cloud_copies.cloud_copies`.
    seed : int
        With the position of an instance, decides its copy.

    Returns
    -------
    Tensor, (B, cities, 2), float64
        The copies.

    Raises
    ------
    ValueError
        If the kind is unknown.

    Examples
    --------
    >>> import torch
    >>> moved = tour_copies(torch.rand(1, 3, 2).double(), "all of these")
    >>> moved.shape
    torch.Size([1, 3, 2])
    """
    copies = cities - _CENTRE
    for part in TOUR_COPIES[1:-1] if kind == TOUR_COPIES[-1] else (kind,):
        copies = cloud_copies(copies, part, seed)
    return copies + _CENTRE
