"""Polygonization of level sets, simplification, and nearest points on triangles."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import scipy
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from equigeo.mesh.simplify import collapse_edges

_MARGIN = 0.1  # of an edge: how far cut points stay away from grid points
_CORNERS = np.array(list(product((0, 1), repeat=3)))
Array = NDArray[np.float64]
_NEARBY = 24  # by their centers: the nearest is among them unless it is 5 times larger


def _is_even(order: tuple[int, ...]) -> bool:
    # A permutation is even when it has an even number of pairs in the wrong order.
    inversions = sum(a > b for i, a in enumerate(order) for b in order[i + 1 :])
    return inversions % 2 == 0


def _kuhn_tetrahedra() -> NDArray[np.int64]:
    """Return the six right-handed tetrahedra of a cube, (6, 4), with corners 4 x + 2 y + z."""
    tetrahedra = []
    for axes in permutations((4, 2, 1)):
        # Along edges from corner 0 to 7; neighboring cubes share the face diagonals.
        path = [0, axes[0], axes[0] + axes[1], 7]
        # An odd order of the axes gives a mirrored tetrahedron; two corners exchanged mend that.
        if not _is_even(tuple(-axis for axis in axes)):
            path[1], path[2] = path[2], path[1]
        tetrahedra.append(path)
    return np.array(tetrahedra)


def _case_triangles(inside: tuple[int, ...]) -> list[list[tuple[int, int]]]:
    """Return the triangles between inside and outside corners as triples of cut edges."""
    # Three corners inside are cut like the one outside, seen from the other side.
    flipped = len(inside) == 3
    first = set(inside) if not flipped else {0, 1, 2, 3} - set(inside)
    # The orders of the corners that are rotations of the tetrahedron keep it right-handed, so one
    # pattern with a first, or a and b, does for every case.
    a, b, c, d = next(
        order
        for order in permutations(range(4))
        if _is_even(order) and set(order[: len(first)]) == first
    )
    if len(first) == 1:
        triangles = [[(a, b), (a, c), (a, d)]]
    else:
        triangles = [[(a, c), (a, d), (b, d)], [(a, c), (b, d), (b, c)]]
    # Normals point away from `inside`.
    return [triangle[::-1] if flipped else triangle for triangle in triangles]


_TETRAHEDRA = _kuhn_tetrahedra()
_CASES = {
    mask: np.array(_case_triangles(tuple(k for k in range(4) if mask >> k & 1)))
    for mask in range(1, 15)
}


def marching_tetrahedra(
    values: NDArray[np.float64],  # (nx, ny, nz), positive on the boundary of the grid
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Polygonize the negative region of a function on a grid, in grid units."""
    inside = values < 0
    if inside.sum() != inside[1:-1, 1:-1, 1:-1].sum():
        raise ValueError("values must be positive on the boundary of the grid")
    # Doi and Koide, "An efficient method of triangulating equi-valued surfaces by using tetrahedral
    # cells", 1991.
    tetrahedra = _cut_tetrahedra(inside)
    masks = inside.reshape(-1)[tetrahedra] @ np.array([1, 2, 4, 8])
    ends = np.concatenate(
        [tetrahedra[masks == mask][:, case].reshape(-1, 3, 2) for mask, case in _CASES.items()]
    )
    ends.sort(axis=2)
    # One vertex per cut edge of the grid, named by its two ends, whichever tetrahedra share it.
    keys, faces = np.unique(ends[..., 0] * values.size + ends[..., 1], return_inverse=True)
    low, high = np.divmod(keys, values.size)
    # The cut is where a function that is linear along the edge vanishes.
    flat = values.reshape(-1)
    # Cuts keep a tenth of an edge from grid points, so that no triangle is degenerate.
    cut = np.clip(flat[low] / (flat[low] - flat[high]), _MARGIN, 1 - _MARGIN)[:, None]
    start = np.stack(np.unravel_index(low, values.shape), axis=1).astype(np.float64)
    end = np.stack(np.unravel_index(high, values.shape), axis=1)
    return start + cut * (end - start), faces.reshape(-1, 3).astype(np.int64)


def _cut_tetrahedra(inside: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the tetrahedra of all cubes that are cut, as flat grid indices, (n, 4)."""
    _, ny, nz = inside.shape
    steps = _CORNERS @ np.array([ny * nz, nz, 1])
    counts = sliding_window_view(inside, (2, 2, 2)).sum(axis=(3, 4, 5))
    cubes = np.argwhere((counts > 0) & (counts < 8)) @ np.array([ny * nz, nz, 1])
    tetrahedra = (cubes[:, None] + steps)[:, _TETRAHEDRA].reshape(-1, 4)
    hits = inside.reshape(-1)[tetrahedra].sum(axis=1)
    return tetrahedra[(hits > 0) & (hits < 4)]


def simplify_surface(
    vertices: NDArray[np.float64],  # (vertices, 3)
    faces: NDArray[np.int64],  # (faces, 3): closed, manifold, oriented; not checked
    count: int,  # even
    generator: np.random.Generator,
    edge_weight: float = 1e-2,  # smaller: more faces at relief
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Collapse edges of a closed manifold surface down to exactly ``count`` faces."""
    if count % 2 or not 4 <= count <= len(faces):
        raise ValueError(f"count must be even, from 4 to {len(faces)}, got {count}")
    vertices, faces, _ = collapse_edges(vertices, faces, count, generator, edge_weight=edge_weight)
    if len(faces) > count:
        raise ValueError(f"no collapse is left at {len(faces)} faces, wanted {count}")
    return vertices, faces


def closest_on_triangles(
    points: Array,  # (..., 3)
    corners: Array,  # (..., 3, 3), positive area; leading axes broadcast
) -> tuple[Array, Array]:
    """Return barycentric coordinates and distance of the closest point on each triangle."""
    points, _ = np.broadcast_arrays(points, corners[..., 0, :])
    # The projection onto the plane if inside the triangle, else the closest point of a side:
    # Ericson, "Real-Time Collision Detection", 2005, section 5.1.5.
    inside = _plane_weights(points, corners)
    sides = [_side_weights(points, corners, k) for k in range(3)]
    candidates = np.stack([inside, *sides], axis=-2)
    found = np.einsum("...kc,...ci->...ki", candidates, corners)
    distances = np.linalg.norm(found - points[..., None, :], axis=-1)
    distances[..., 0][(inside < 0).any(axis=-1)] = np.inf
    best = distances.argmin(axis=-1)[..., None]
    weights = np.take_along_axis(candidates, best[..., None], axis=-2)[..., 0, :]
    return weights, np.take_along_axis(distances, best, axis=-1)[..., 0]


def nearest_triangles(
    points: Array,  # (points, 3)
    corners: Array,  # (triangles, 3, 3), positive area
) -> tuple[NDArray[np.int64], Array]:
    """Return the nearest triangle of each point and the barycentric coordinates there."""
    count = min(_NEARBY, len(corners))
    # Among 24 candidates with the nearest centers: exact unless a triangle is much larger than its
    # neighbors.
    tree = scipy.spatial.cKDTree(corners.mean(axis=1))
    nearby = tree.query(points, k=count)[1].reshape(-1, count)
    weights, distances = closest_on_triangles(points[:, None], corners[nearby])
    rows, best = np.arange(len(points)), distances.argmin(axis=1)
    return nearby[rows, best], weights[rows, best]


def _plane_weights(points: Array, corners: Array) -> Array:
    """Return barycentric coordinates of the projection onto the plane, of any sign."""
    one, two = corners[..., 1, :] - corners[..., 0, :], corners[..., 2, :] - corners[..., 0, :]
    offset = points - corners[..., 0, :]
    normal = np.cross(one, two)
    square = np.sum(normal * normal, axis=-1)
    second = np.sum(np.cross(offset, two) * normal, axis=-1) / square
    third = np.sum(np.cross(one, offset) * normal, axis=-1) / square
    return np.stack([1 - second - third, second, third], axis=-1)


def _side_weights(points: Array, corners: Array, side: int) -> Array:
    """Return barycentric coordinates of the closest point on the side that starts at a corner."""
    start, end = corners[..., side, :], corners[..., (side + 1) % 3, :]
    span = end - start
    along = np.sum((points - start) * span, axis=-1) / np.sum(span * span, axis=-1)
    along = np.clip(along, 0.0, 1.0)
    weights = np.zeros((*along.shape, 3))
    weights[..., side], weights[..., (side + 1) % 3] = 1 - along, along
    return weights
