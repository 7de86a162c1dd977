"""Simplification of a closed surface to an exact number of faces."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

_JITTER = 0.4  # standard deviation of the random factor's logarithm on every collapse's cost
_PASSES = 3  # of the choice of collapses in one round
_SHARE = 0.5  # of all edges that a round considers, cheapest first
_EDGE_WEIGHT = 1e-2  # of squared length in the cost: keeps flat parts evenly meshed
_MIN_COSINE = 0.3  # between a face's normals before and after
_MIN_QUALITY = 0.1  # of a face after: 1 for equilateral, 0 for degenerate


class _Collapses(NamedTuple):
    """Edges with the position and the cost of their collapse."""

    edges: Indices
    positions: Array
    costs: Array


def simplify_surface(
    vertices: Array, faces: Indices, count: int, generator: np.random.Generator
) -> tuple[Array, Indices]:
    """Collapse edges of a closed manifold surface until ``count`` faces are left.

    Rounds of independent collapses, the cheapest first by the quadric error. A collapse must
    satisfy the link condition, so the surface stays manifold with the same Euler characteristic;
    one that folds a face over, or makes a sliver, is put off. Costs carry a random factor: another
    generator gives other connectivity.

    Parameters
    ----------
    vertices : array, (vertices, 3), float64
        Positions.
    faces : array, (faces, 3), int64
        Closed, manifold and consistently oriented; not checked.
    count : int
        Even, at most the present number.
    generator : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    vertices : array, (kept, 3), float64
        Positions, all used.
    faces : array, (count, 3), int64
        Oriented as before.

    Raises
    ------
    ValueError
        If ``count`` cannot be reached: odd, too large, or so small that no collapse is left.

    References
    ----------
    Garland and Heckbert, "Surface simplification using quadric error metrics", 1997.
    Dey, Edelsbrunner, Guha and Nekhayev, "Topology preserving edge contraction", 1999.
    """
    if count % 2 or not 4 <= count <= len(faces):
        raise ValueError(f"count must be even, from 4 to {len(faces)}, got {count}")
    vertices = vertices.copy()
    quadrics = _vertex_quadrics(vertices, faces)
    put_off = np.empty(0, dtype=np.int64)
    while len(faces) > count:
        candidates = _candidates(vertices, quadrics, faces, put_off, generator)
        if not len(candidates.edges):
            if not len(put_off):
                raise ValueError(f"no collapse is left at {len(faces)} faces, wanted {count}")
            put_off = put_off[:0]
            continue
        chosen = _independent(candidates, faces, len(vertices), (len(faces) - count) // 2)
        bad = _spoils(chosen, vertices, faces)
        put_off = np.concatenate([put_off, _keys(chosen.edges[bad], len(vertices))])
        faces = _collapse(chosen, ~bad, vertices, quadrics, faces)
    used, faces = np.unique(faces, return_inverse=True)
    return vertices[used], faces.reshape(-1, 3)


def _vertex_quadrics(vertices: Array, faces: Indices) -> Array:
    """Sum the squared distances to the planes around each vertex, weighted by area, (n, 4, 4)."""
    corners = vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    doubled = np.linalg.norm(normals, axis=1, keepdims=True)
    normals /= doubled
    planes = np.concatenate([normals, -np.sum(normals * corners[:, 0], 1, keepdims=True)], axis=1)
    # A third of the area to each corner: the norm of the cross product is twice the area.
    per_face = (doubled[:, :, None] / 6) * planes[:, :, None] * planes[:, None, :]
    spread = _incidence(faces, len(vertices))
    return (spread @ per_face.reshape(-1, 16)).reshape(-1, 4, 4)


def _incidence(faces: Indices, number: int) -> sparse.csr_matrix:
    columns = np.repeat(np.arange(len(faces)), 3)
    return sparse.csr_matrix(
        (np.ones(faces.size), (faces.reshape(-1), columns)), (number, len(faces))
    )


def _half_edges(faces: Indices) -> Indices:
    return np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])


def _keys(edges: Indices, number: int) -> Indices:
    return edges[:, 0] * number + edges[:, 1]


def _candidates(
    vertices: Array,
    quadrics: Array,
    faces: Indices,
    put_off: Indices,
    generator: np.random.Generator,
) -> _Collapses:
    """Give the cheaper edges that satisfy the link condition, cheapest first."""
    half_edges = _half_edges(faces)
    edges = half_edges[half_edges[:, 0] < half_edges[:, 1]]
    number = len(vertices)
    ones = np.ones(len(half_edges), dtype=np.int32)
    neighbours = sparse.csr_matrix((ones, (half_edges[:, 0], half_edges[:, 1])), (number, number))
    common = np.asarray((neighbours @ neighbours)[edges[:, 0], edges[:, 1]]).reshape(-1)
    # on a closed surface the link condition says: no common neighbours but the two apexes
    edges = edges[(common == 2) & ~np.isin(_keys(edges, number), put_off)]
    sums = quadrics[edges[:, 0]] + quadrics[edges[:, 1]]
    start, end = vertices[edges[:, 0]], vertices[edges[:, 1]]
    positions, errors = _best_positions(sums, (start + end) / 2)
    squares = np.sum((start - end) ** 2, axis=1)
    costs = errors + _EDGE_WEIGHT * squares**2
    costs *= np.exp(_JITTER * generator.standard_normal(len(costs)))
    order = np.argsort(costs, kind="stable")[: max(1, int(_SHARE * len(costs)))]
    return _Collapses(edges[order], positions[order], costs[order])


def _best_positions(quadrics: Array, middles: Array) -> tuple[Array, Array]:
    """Minimise each quadric, with a slight pull to the middle that decides where it is flat."""
    matrices, vectors = quadrics[:, :3, :3], quadrics[:, :3, 3]
    # A hundredth of the quadric's own size: in a plane its matrix is singular.
    pull = 1e-2 * np.trace(matrices, axis1=1, axis2=2)[:, None, None] * np.eye(3)
    right = -vectors[:, :, None] + pull @ middles[:, :, None]
    positions = np.linalg.solve(matrices + pull, right)[:, :, 0]
    homogeneous = np.concatenate([positions, np.ones((len(positions), 1))], axis=1)
    errors = np.einsum("ei,eij,ej->e", homogeneous, quadrics, homogeneous)
    return positions, np.maximum(errors, 0.0)


def _independent(candidates: _Collapses, faces: Indices, number: int, limit: int) -> _Collapses:
    """Choose collapses of which none has an end next to an end of another.

    An edge is chosen when no cheaper one touches its ends or their neighbours; each further pass
    repeats this among the edges that no chosen one blocks. Then no collapse changes the neighbours
    of another's ends, so link conditions that hold before hold throughout.
    """
    half_edges = _half_edges(faces)
    edges = candidates.edges
    ranks = np.arange(len(edges))
    live, chosen = np.ones(len(edges), bool), np.zeros(len(edges), bool)
    for _ in range(_PASSES):
        touching = np.full(number, len(edges))
        np.minimum.at(touching, edges[live].reshape(-1), np.repeat(ranks[live], 2))
        nearby = touching.copy()
        np.minimum.at(nearby, half_edges[:, 0], touching[half_edges[:, 1]])
        new = live & (nearby[edges].min(axis=1) == ranks)
        chosen |= new
        blocked = np.zeros(number, bool)
        blocked[edges[new]] = True
        blocked[half_edges[blocked[half_edges[:, 0]], 1]] = True
        live &= ~blocked[edges].any(axis=1)
    kept = np.flatnonzero(chosen)[:limit]
    return _Collapses(edges[kept], candidates.positions[kept], candidates.costs[kept])


def _spoils(chosen: _Collapses, vertices: Array, faces: Indices) -> NDArray[np.bool_]:
    """Tell which collapses would turn a face over or make it a sliver."""
    owner = np.full(len(vertices), -1)
    owner[chosen.edges] = np.arange(len(chosen.edges))[:, None]
    moved = vertices.copy()
    moved[chosen.edges] = chosen.positions[:, None]
    owners = owner[faces]
    touched = (owners >= 0).sum(axis=1) == 1  # two owned corners: a face that disappears
    owners, corners = owners[touched].max(axis=1), faces[touched]
    before, _ = _normals_and_quality(vertices[corners])
    after, quality = _normals_and_quality(moved[corners])
    cosines = np.sum(before * after, axis=1)
    bad = np.zeros(len(chosen.edges), bool)
    bad[owners[(cosines < _MIN_COSINE) | (quality < _MIN_QUALITY)]] = True
    return bad


def _normals_and_quality(corners: Array) -> tuple[Array, Array]:
    sides = np.roll(corners, -1, axis=1) - corners
    normals = np.cross(sides[:, 0], sides[:, 1])
    doubled = np.linalg.norm(normals, axis=1)
    squares = np.sum(sides**2, axis=(1, 2))
    # 4 sqrt(3) area over the sum of squared sides, the usual measure: 1 for equilateral triangles.
    tiny = np.finfo(float).tiny
    return normals / (doubled[:, None] + tiny), 2 * 3**0.5 * doubled / (squares + tiny)


def _collapse(
    chosen: _Collapses, good: NDArray[np.bool_], vertices: Array, quadrics: Array, faces: Indices
) -> Indices:
    """Merge the ends of the good collapses, in place, and give the faces that remain."""
    kept, gone = chosen.edges[good].T
    vertices[kept] = chosen.positions[good]
    quadrics[kept] += quadrics[gone]
    target = np.arange(len(vertices))
    target[gone] = kept
    faces = target[faces]
    a, b, c = faces.T
    return faces[(a != b) & (b != c) & (c != a)]
