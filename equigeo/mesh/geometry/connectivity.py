"""Connected components of a graph, for tensors on a device and for NumPy arrays."""

from __future__ import annotations

import numpy as np
import scipy
import torch
from numpy.typing import NDArray
from torch import Tensor


def connected_components(
    pairs: Tensor,  # (pairs, 2) undirected edges
    num_nodes: int,
) -> Tensor:
    """Number the connected components in the order of their smallest members, (num_nodes,)."""
    return torch.unique(smallest_connected(pairs, num_nodes), return_inverse=True)[1]


def smallest_connected(
    pairs: Tensor,  # (pairs, 2) undirected edges
    num_nodes: int,
) -> Tensor:
    """Return the smallest node of the connected component of each node, (num_nodes,)."""
    # Shiloach and Vishkin, "An O(log n) parallel connectivity algorithm", 1982.
    label = torch.arange(num_nodes, device=pairs.device)
    while len(pairs):
        ends = label[pairs]
        joined = ends[:, 0] != ends[:, 1]
        if not bool(joined.any()):
            break
        # Edges inside a component never part again, so only the others enter the next round.
        pairs, ends = pairs[joined], ends[joined]
        smallest = torch.minimum(ends[:, 0], ends[:, 1]).repeat_interleave(2)
        label = label.scatter_reduce(0, ends.reshape(-1), smallest, "amin")
        # To the roots: each step halves the length of every path.
        while not torch.equal(jumped := label[label], label):
            label = jumped
    return label


def connected_components_numpy(
    source: NDArray[np.int64],  # (edges,); edges may repeat
    target: NDArray[np.int64],
    num_nodes: int,
) -> NDArray[np.int64]:
    """Return the connected component of each node, by SciPy."""
    entries = (np.ones(len(source), np.int8), (source, target))
    graph = scipy.sparse.coo_array(entries, shape=(num_nodes, num_nodes))
    return scipy.sparse.csgraph.connected_components(graph, directed=False)[1].astype(np.int64)


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
    """Return the points with close neighbors along all axes, sorted by group, and their groups."""
    active, group = np.arange(len(points)), np.zeros(len(points), np.int64)
    if _all_apart(points, tolerance):
        return active[:0], group[:0]
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


def _all_apart(points: NDArray[np.float64], tolerance: float) -> bool:
    """Return True only if no two points are within the tolerance along all axes, by one sort."""
    # Symmetric shapes have many points in a plane across an axis, but few across this direction.
    # Along it, points within the tolerance differ by 0.4101 of it and by rounding at most.
    with np.errstate(all="ignore"):  # coordinates may be infinite or NaN
        place = np.sort(points @ [0.1837, 0.1291, 0.0973])
        rounding = 1e-15 * np.abs(points).max(where=np.isfinite(points), initial=0.0)
        return not bool((np.diff(place) <= 0.4102 * tolerance + rounding).any())


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
    pairs = scipy.spatial.cKDTree(leaders).query_pairs(tolerance, output_type="ndarray")
    return connected_components_numpy(pairs[:, 0], pairs[:, 1], len(leaders))[cell_of]


def concatenate_ranges(first: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Concatenate ``range(first[i], first[i] + sizes[i])`` over all ``i``."""
    # Entry j of the result is j, shifted by the difference between where its range begins and
    # where that range begins in the result.
    offset = first - (np.cumsum(sizes) - sizes)
    return np.repeat(offset, sizes) + np.arange(int(sizes.sum()))
