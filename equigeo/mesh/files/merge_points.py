"""Points that coincide."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 64  # ordinary data settles in 3; each costs a sort of the points still in doubt


def merge_points(points: NDArray[np.float64], tolerance: float) -> NDArray[np.int64]:
    """Find for each point the first one that lies at the same place.

    Points are sorted along an axis and parted wherever the next one is farther than the tolerance;
    each part is parted again along the other axes, until nothing parts. There is no grid, so two
    close points are never separated by a cell wall, and the groups depend on no order. Chains of
    close points merge as a whole.

    Parameters
    ----------
    points : ndarray, (n, 3), float64
        Positions; a coordinate that is NaN merges with nothing.
    tolerance : float
        Largest distance along each axis, in the unit of the points; 0 merges equal points only.

    Returns
    -------
    ndarray, (n,), int64
        Index of the first point of the group of each point.

    Equivariance
    ------------
    Invariant to translations and to permutations of the axes.

    Examples
    --------
    >>> merge_points(np.array([[0, 0, 0], [1, 0, 0], [0, 0, 1e-12]]), 1e-9)
    array([0, 1, 0])
    """
    count = len(points)
    first = np.arange(count)
    group = np.zeros(count, np.int64)
    active = np.arange(count)
    settled = 0
    for turn in range(_ROUNDS * 3):
        if settled == 3 or not len(active):
            break
        axis = points[active, turn % 3]
        order = np.lexsort((axis, group[active])) if turn else np.argsort(axis, kind="stable")
        active, axis = active[order], axis[order]
        # Not "gap > tolerance": a gap to NaN is NaN, and parts.
        parted = ~(np.diff(axis) <= tolerance) | (np.diff(group[active]) != 0)
        label = np.cumsum(np.append(0, parted))
        sizes = np.bincount(label)
        settled = settled + 1 if label[-1] == _num_groups(group[active]) - 1 else 0
        group[active] = label
        alone = sizes[label] == 1
        if alone.any():
            active = active[~alone]
    order = active[np.lexsort((active, group[active]))]
    starts = np.append(True, np.diff(group[order]) != 0)[: len(order)]
    first[order] = order[starts][np.cumsum(starts) - 1]
    return first


def _num_groups(sorted_group: NDArray[np.int64]) -> int:
    return 1 + int(np.count_nonzero(np.diff(sorted_group)))
