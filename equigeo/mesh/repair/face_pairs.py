"""Pairing of faces at edges, including non-manifold edges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.errors import MeshError
from equigeo.mesh.repair.edge_table import EdgeTable

# Wedges within this angle of each other are equally flat: far above rounding, far below any angle
# that is meant.
_SAME_ANGLE = 1e-6
_MOST_FACES = 256  # at one edge: the number of pairs is quadratic


def pair_faces(
    points: NDArray[np.float64],  # (vertices, 3)
    faces: NDArray[np.int64],  # (faces, 3) after merging vertices
    loose: NDArray[np.int64],  # (faces, 3) before merging vertices
    edges: EdgeTable,
) -> NDArray[np.int64]:
    """Pair the half-edges of faces that continue each other at each edge, (pairs, 2)."""
    counts = edges.num_faces_at_edge
    # At non-manifold edges, pairs that were separate before merging come first, then neighbours
    # around the edge: pairs that all bound a solid, else the flattest, then most alike in winding.
    crowd = edges.order[np.repeat(counts > 2, counts)]
    found = [edges.twins()]
    if len(crowd):
        kept = _sole_pairs(loose, edges, crowd)
        crowd = crowd[~np.isin(crowd, kept)]
        found += [kept, _radial_pairs(points, faces, edges, crowd)]
    pairs = np.sort(np.concatenate(found), axis=1)
    return pairs[np.argsort(pairs[:, 0])]


def all_pairs(edges: EdgeTable) -> NDArray[np.int64]:
    """Pair all half-edges along each edge with each other, (pairs, 2)."""
    counts = edges.num_faces_at_edge
    if counts.max(initial=0) > _MOST_FACES:
        raise MeshError(
            f"has an edge of {counts.max()} faces, where at most {_MOST_FACES} can all meet; load "
            'it with nonmanifold="cut"'
        )
    pairs = [np.empty((0, 2), np.int64)]
    for size in np.unique(counts[counts > 1]):
        around = edges.order[edges.ptr[:-1][counts == size, None] + np.arange(size)]
        one, other = np.triu_indices(size, 1)
        pairs.append(np.stack([around[:, one], around[:, other]], axis=2).reshape(-1, 2))
    found = np.concatenate(pairs)
    return found[np.lexsort((found[:, 1], found[:, 0]))]


def _sole_pairs(
    loose: NDArray[np.int64], edges: EdgeTable, crowd: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return pairs that were the only ones at their edge before merging, (pairs, 2)."""
    tail, head = loose.ravel()[crowd], np.roll(loose, -1, axis=1).ravel()[crowd]
    key = np.stack([edges.edge[crowd], np.minimum(tail, head), np.maximum(tail, head)])
    group = np.unique(key, axis=1, return_inverse=True)[1].reshape(-1)
    alone = np.bincount(group)[group] == 2
    return crowd[alone][np.argsort(group[alone], kind="stable")].reshape(-1, 2)


def _radial_pairs(
    points: NDArray[np.float64],
    faces: NDArray[np.int64],
    edges: EdgeTable,
    crowd: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return pairs of neighbours around each edge, (pairs, 2), grouped by edge."""
    if not len(crowd):
        return np.empty((0, 2), np.int64)
    edge = edges.edge[crowd]
    angle = _angles(points, faces, edges, crowd)
    order = np.lexsort((angle, edge))
    crowd, edge, angle = crowd[order], edge[order], angle[order]
    starts = np.flatnonzero(np.diff(edge, prepend=-1))
    sizes = np.diff(np.append(starts, len(edge)))
    pairs = []
    for size in np.unique(sizes[sizes > 1]):  # all edges of as many faces at once
        around = starts[sizes == size, None] + np.arange(size)
        chosen = _best_matching(angle[around], edges.forward[crowd[around]])
        pairs.append(crowd[np.take_along_axis(around[..., None], chosen, axis=1)].reshape(-1, 2))
    return np.concatenate(pairs) if pairs else np.empty((0, 2), np.int64)


def _angles(
    points: NDArray[np.float64],
    faces: NDArray[np.int64],
    edges: EdgeTable,
    crowd: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the angle of each face around its edge, relative to the first corner, in [0, 2 pi)."""
    flat = faces.ravel()
    tail, head = flat[crowd], np.roll(faces, -1, axis=1).ravel()[crowd]
    opposite = points[np.roll(faces, -2, axis=1).ravel()[crowd]]
    low, high = points[np.minimum(tail, head)], points[np.maximum(tail, head)]
    axis = (high - low) / np.linalg.norm(high - low, axis=1, keepdims=True)
    across = opposite - low
    across = across - (across * axis).sum(1, keepdims=True) * axis
    # Where the order begins must not depend on the order of faces.
    edge = edges.edge[crowd]
    order = np.lexsort((*opposite.T, edge))
    first = order[np.flatnonzero(np.diff(edge[order], prepend=-1))]
    reference = across[first[np.unique(edge, return_inverse=True)[1]]]
    run = (across * reference).sum(1)
    rise = (across * np.cross(axis, reference)).sum(1)
    angle = np.arctan2(rise, run) % (2 * np.pi)
    return np.where(2 * np.pi - angle < _SAME_ANGLE, 0.0, angle)


def _best_matching(angle: NDArray[np.float64], forward: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Pair neighbours on the circle of each row, (rows, pairs, 2); an odd row leaves one face."""
    number = angle.shape[1]
    following = np.roll(forward, -1, axis=1)
    wedge = np.roll(angle, -1, axis=1) - angle
    wedge[:, -1] += 2 * np.pi
    # A face that runs forward has its normal on the side of larger angles.
    values = np.stack([abs(wedge - np.pi), forward == following, forward | ~following])
    # Faces around an edge are sorted by angle; wedge k lies between faces k and k + 1. A matching
    # is every second wedge: there are two for an even number n of faces, and n for an odd one, one
    # for each face that is left over. In the odd case a matching is n // 2 consecutive wedges of
    # the walk 0, 2, 4, ... modulo n, and its sums are differences of cumulative sums.
    size = number // 2
    if number % 2:
        starts = np.arange(0, 2 * number, 2) % number
        sums = np.cumsum(np.tile(values[..., starts], 2), axis=2)
        sums = np.concatenate([np.zeros((3, len(angle), 1)), sums], axis=2)
        flat, clash, hollow = sums[..., size : size + number] - sums[..., :number]
        solid = np.zeros_like(hollow, dtype=bool)  # a face is left over
    else:
        starts = np.arange(2)
        flat, clash, hollow = np.stack([values[..., n::2].sum(2) for n in starts], axis=2)
        solid = hollow == 0
    # Compared in the order solid, flatness, clashes, hollow, start: `lexsort` takes the last key
    # first.
    keys = (np.broadcast_to(starts, flat.shape), hollow, clash, np.round(flat / _SAME_ANGLE))
    best = np.lexsort((*keys, ~solid), axis=1)[:, 0]
    first = (starts[best][:, None] + 2 * np.arange(size)) % number
    return np.stack([first, (first + 1) % number], axis=2)
