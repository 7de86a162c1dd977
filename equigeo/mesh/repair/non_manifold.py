"""Filter for non-manifold faces: each directed half-edge is used once."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from equigeo.mesh.geometry.connectivity import connected_components_numpy
from equigeo.mesh.geometry.orient import area_vectors, nesting_depth
from equigeo.mesh.repair.topology import EdgeTable

# Share of the volume without cancellation: far above its rounding, 1e-16 for each face.
_LEAST_VOLUME = 1e-9

# Distances from the middle within this share of the largest one are the same: far above rounding.
_SAME_DISTANCE = 1e-9


def nonmanifold_faces(
    edges: EdgeTable,
    forward: NDArray[np.bool_],  # (3 faces,) direction after winding repair
) -> NDArray[np.bool_]:
    """Mark the faces that repeat a directed half-edge of an earlier kept face, (faces,)."""
    # The filter of PD-MeshNet's loader (Milano et al., 2020), over the faces that meet another one.
    directed = (2 * edges.edge + forward).reshape(-1, 3)
    contested = (np.bincount(directed.ravel())[directed] > 1).any(axis=1)
    dropped = np.zeros(len(directed), bool)
    taken: set[int] = set()
    for face in np.flatnonzero(contested).tolist():
        sides = directed[face].tolist()
        if taken.isdisjoint(sides):
            taken.update(sides)
        else:
            dropped[face] = True
    return dropped


_Graph = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]  # face, face, clash


def wrongly_wound_faces(
    points: NDArray[np.float64],  # (vertices, 3)
    faces: NDArray[np.int64],  # (faces, 3)
    edges: EdgeTable,
    pairs: NDArray[np.int64] | None = None,  # (pairs, 2) paired half-edges; default: twins
) -> tuple[NDArray[np.bool_], int, int]:
    """Return the faces to flip (faces,), the number of unorientable parts, and of all parts."""
    twins = edges.twins() if pairs is None else pairs
    left, right = (twins // 3).T
    clash = edges.forward[twins[:, 0]] == edges.forward[twins[:, 1]]
    # Each face has a node for itself and one for its reverse; an orientable part has two sheets: a
    # closed part keeps the one with outward normals, an open part the one with fewer flips.
    sheet = _sheets((left, right, clash), len(faces))
    twisted = sheet[0] == sheet[1]
    if twisted.any():
        part = connected_components_numpy(left, right, len(faces))
        # An unorientable part keeps the links of a breadth-first tree and has a seam. The tree
        # starts at the face farthest from the center, independent of the order of faces.
        place = _places(points, faces)
        rank = np.empty_like(place)
        rank[place] = np.arange(len(place))
        links = (rank[left], rank[right], clash)
        tree = _tree_links(links, part[place], twisted[place])
        tree = (place[tree[0]], place[tree[1]], tree[2])
        num_nonorientable = len(np.unique(part[twisted]))
        sheet = _sheets(tree, len(faces))
    else:
        num_nonorientable = 0
    paired = np.zeros(faces.size, bool)
    paired[twins] = True
    is_open = twisted | ~paired.reshape(-1, 3).all(axis=1)
    turned, num_parts = _turned(points, faces, sheet, is_open)
    return turned, num_nonorientable, num_parts


def _places(points: NDArray[np.float64], faces: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort faces by distance from the center, farthest first, then by position."""
    middle = points[faces].mean(axis=1)
    distance = np.linalg.norm(middle - middle.mean(axis=0), axis=1)
    distance /= _SAME_DISTANCE * distance.max(initial=0.0) or 1.0
    return np.lexsort((*middle.T, -distance.round()))


def _sheets(links: _Graph, num_faces: int) -> NDArray[np.int64]:
    """Return the sheet of each face and of its reverse, (2, faces)."""
    left, right, clash = links
    if not clash.any():  # the two sides of each part
        part = connected_components_numpy(left, right, num_faces)
        return np.stack([part, part + num_faces])
    row = np.concatenate([left, left + num_faces])
    column = np.concatenate([right + num_faces * clash, right + num_faces * ~clash])
    return connected_components_numpy(row, column, 2 * num_faces).reshape(2, num_faces)


def _tree_links(links: _Graph, part: NDArray[np.int64], twisted: NDArray[np.bool_]) -> _Graph:
    """Replace the links of unorientable parts by a breadth-first tree of each."""
    left, right, clash = links
    num_faces = len(part)
    inside = twisted[left]
    first = np.flatnonzero(twisted)
    first = first[np.unique(part[first], return_index=True)[1]]
    # One root, linked to a face of each part, makes all trees in one call.
    # Which of two faces is left must not matter, nor in which order links come.
    one, other = np.minimum(left, right)[inside], np.maximum(left, right)[inside]
    row = np.concatenate([one, np.full(len(first), num_faces)])
    column = np.concatenate([other, first])
    size = num_faces + 1
    graph = scipy.sparse.coo_array((np.ones(len(row)), (row, column)), shape=(size, size)).tocsr()
    parent, child = scipy.sparse.csgraph.breadth_first_tree(
        graph, num_faces, directed=False
    ).nonzero()
    low, high = np.minimum(parent, child), np.maximum(parent, child)
    kept = ~inside
    # Two faces may share several edges, with opposite parities: the first link stands for all.
    key = np.minimum(left, right) * size + np.maximum(left, right)
    chosen = np.isin(key, low.astype(np.int64) * size + high) & inside
    chosen_links = np.flatnonzero(chosen)
    kept[chosen_links[np.unique(key[chosen_links], return_index=True)[1]]] = True
    return left[kept], right[kept], clash[kept]


def _turned(
    points: NDArray[np.float64],
    faces: NDArray[np.int64],
    sheet: NDArray[np.int64],
    is_open: NDArray[np.bool_],
) -> tuple[NDArray[np.bool_], int]:
    """Choose a sheet for each part; return the faces to flip and the number of parts."""
    # The two sheets of a part hold the same faces, so the smaller label names the part.
    part = np.minimum(sheet[0], sheet[1])
    size = int(sheet.max(initial=-1)) + 1
    turn = sheet[0] != part  # the sheet with the smaller label, as written
    turned = np.bincount(part, turn, size)
    total = np.bincount(part, minlength=size)
    is_closed = (np.bincount(part, is_open, size) == 0) & (total > 0)
    # Six times the signed volume of the tetrahedron over each face, seen from the origin.
    volume = np.einsum("ji,ij->j", points[faces[:, 0]], area_vectors(points, faces))
    volume[turn] *= -1
    signed, absolute = np.bincount(part, volume, size), np.bincount(part, abs(volume), size)
    reverse = 2 * turned > total
    # A flat closed part has no outside; rounding must not choose for it.
    has_inside = is_closed & (abs(signed) > _LEAST_VOLUME * absolute)
    inward = signed < 0
    if has_inside.sum() > 1:
        wound = np.where(turn[:, None], faces[:, [0, 2, 1]], faces)
        inward ^= nesting_depth(points, wound, part, has_inside) % 2 == 1
    reverse[has_inside] = inward[has_inside]
    return turn ^ reverse[part], int(np.count_nonzero(total))
