"""Points that are far from each other."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def farthest_landmarks(
    distances_from: Callable[[int], Tensor], count: int, *, start: int
) -> tuple[Tensor, Tensor]:
    """Choose points, each farthest from those before it.

    Parameters
    ----------
    distances_from : callable
        From the number of a point to its distances from all, (points,).
    count : int
        How many to choose, at least 1; all at most.
    start : int
        The first.

    Returns
    -------
    landmarks : Tensor, (landmarks,), int64
        Their numbers.
    distances : Tensor, (landmarks, points), float64
        From each of them to all points.

    Raises
    ------
    ValueError
        If none is asked for.

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
    rows = [distances_from(start).double()]
    chosen, nearest = [start], rows[0]
    while len(chosen) < min(count, len(nearest)):
        chosen.append(int(nearest.argmax()))
        rows.append(distances_from(chosen[-1]).double())
        nearest = torch.minimum(nearest, rows[-1])
    return torch.tensor(chosen), torch.stack(rows)
