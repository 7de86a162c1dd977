"""Search for coincident points by sorting instead of comparing all pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from equigeo.mesh.geometry.connected_components import connected_components_numpy


def coincident_points(
    points: NDArray[np.float64],  # (n, 3); a point with a NaN merges with nothing
    tolerance: float,  # largest distance; 0 merges equal points only
) -> NDArray[np.int64]:
    """Return for each point the first point at the same position; chains of close points merge."""
    first = np.arange(len(points))
    # Sorting along each axis and splitting at gaps isolates nearly all points in linear memory.
    active, group = _split_at_gaps(points, tolerance)
    if not len(active):
        return first
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    position = points[active]
    # A group as narrow as the tolerance along every axis is taken for one point. A wider one may
    # be several that no gap along an axis parts, such as a tilted lattice.
    extent = np.maximum.reduceat(position, starts) - np.minimum.reduceat(position, starts)
    wide = np.repeat((extent > tolerance).any(axis=1), np.diff(starts, append=len(active)))
    if wide.any():
        group[wide] = group.max() + 1 + _label_chains(position[wide], tolerance)
    order = np.lexsort((active, group))  # by index within a group: its first point leads
    active, group = active[order], group[order]
    starts_group = np.diff(group, prepend=-1) != 0
    first[active] = active[starts_group][np.cumsum(starts_group) - 1]
    return first


def _split_at_gaps(
    points: NDArray[np.float64], tolerance: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the points with close neighbours along all axes, sorted by group, and their groups."""
    active, group = np.arange(len(points)), np.zeros(len(points), np.int64)
    for turn in range(6):  # every axis twice: other axes may have opened gaps
        axis = points[active, turn % 3]
        order = np.lexsort((axis, group)) if turn else np.argsort(axis, kind="stable")
        active, axis, group = active[order], axis[order], group[order]
        # Not "gap > tolerance": a gap to NaN is NaN, and parts.
        parted = ~(np.diff(axis) <= tolerance) | (np.diff(group) != 0)
        group = np.cumsum(np.append(0, parted))[: len(active)]
        company = np.bincount(group)[group] > 1
        active, group = active[company], group[company]
    return active, group


def _label_chains(position: NDArray[np.float64], tolerance: float) -> NDArray[np.int64]:
    """Label points by chains of neighbors within the tolerance."""
    # One point stands for each small cell, so that a crowd has few pairs. The diagonal of a cell
    # is sqrt(3) / 2 of the tolerance: points of one cell belong together.
    cell = np.floor((position - position.min(axis=0)) / (tolerance / 2))
    order = np.lexsort(cell.T)
    new = np.append(True, (np.diff(cell[order], axis=0) != 0).any(axis=1))
    cell_of = np.empty(len(position), np.int64)
    cell_of[order] = np.cumsum(new) - 1
    leaders = position[order[new]]
    pairs = cKDTree(leaders).query_pairs(tolerance, output_type="ndarray")
    return connected_components_numpy(pairs[:, 0], pairs[:, 1], len(leaders))[cell_of]
