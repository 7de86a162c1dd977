"""Farthest-first selection of landmarks."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from equigeo.points.farthest_point_sampling import farthest_first


def farthest_landmarks(
    distances_from: Callable[[int], Tensor], count: int, *, start: int
) -> tuple[Tensor, Tensor]:
    """Select points, each farthest from the previous ones, with their distances to all.

    Parameters
    ----------
    distances_from : callable
        Maps the number of a point to its distances to all, (points,).
    count : int
        Number of landmarks, at least 1; at most all points are selected.
    start : int
        First landmark.

    Returns
    -------
    landmarks : Tensor, (landmarks,), int64
    distances : Tensor, (landmarks, points), float64

    References
    ----------
    Gonzalez, "Clustering to minimize the maximum intercluster distance", 1985.

    Examples
    --------
    >>> x = torch.tensor([0.0, 1.0, 5.0, 9.0])
    >>> landmarks, _ = farthest_landmarks(lambda i: (x - x[i]).abs(), 3, start=0)
    >>> landmarks.tolist()
    [0, 3, 2]
    """
    if count < 1:
        raise ValueError(f"there must be at least one landmark, got {count}")
    rows: dict[int, Tensor] = {}

    def measure(landmark: Tensor) -> Tensor:
        number = int(landmark)
        if number not in rows:
            rows[number] = distances_from(number).double()
        return rows[number]

    first = torch.tensor([start])
    count = min(count, len(measure(first)))
    landmarks = farthest_first(first, measure, count)
    return landmarks, torch.stack([measure(landmark) for landmark in landmarks])
