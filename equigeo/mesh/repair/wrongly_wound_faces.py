"""Consistent winding: neighbours run against each other along their common edge."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_tree

from equigeo.mesh.geometry.connected_components import connected_components_numpy
from equigeo.mesh.repair.edge_table import EdgeTable

_Graph = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]  # face, face, clash

# Share of the volume without cancellation: far above its rounding, 1e-16 for each face.
_LEAST_VOLUME = 1e-9


def wrongly_wound_faces(
    points: NDArray[np.float64], faces: NDArray[np.int64], edges: EdgeTable
) -> tuple[NDArray[np.bool_], int]:
    """Find the faces to turn over so that each part is wound consistently.

    Parts are connected over edges of exactly two faces. Every face is doubled into itself and its
    reverse; linking the doubles that agree along each edge, an orientable part falls into two
    sheets, of which one is chosen: the outward one if the part is closed, else the one that turns
    fewer faces (half and half: keeps its first face). In a part that cannot be oriented, such as a
    Möbius strip, only the edges of a breadth-first tree count: clashes remain along a seam.

    Parameters
    ----------
    points : ndarray, (vertices, 3), float64
        Positions, in any unit.
    faces : ndarray, (faces, 3), int64
        Vertex indices.
    edges : EdgeTable
        Their edges.

    Returns
    -------
    turn : ndarray, (faces,), bool
        Faces to turn over.
    num_nonorientable : int
        Number of parts that cannot be oriented.

    Equivariance
    ------------
    Invariant to proper rigid motions and scaling. A reflection turns closed parts over.

    Examples
    --------
    >>> faces = np.array([[0, 1, 2], [0, 3, 1], [0, 2, 3], [1, 2, 3]])  # a tetrahedron
    >>> wrongly_wound_faces(np.eye(4, 3), faces, EdgeTable.from_faces(faces))
    (array([False, False, False,  True]), 0)
    """
    twins = edges.twins()
    left, right = (twins // 3).T
    clash = edges.forward[twins[:, 0]] == edges.forward[twins[:, 1]]
    sheet = _sheets((left, right, clash), len(faces))
    twisted = sheet[0] == sheet[1]
    if twisted.any():
        part = connected_components_numpy(left, right, len(faces))
        tree = _tree_links((left, right, clash), part, twisted)
        num_nonorientable = len(np.unique(part[twisted]))
        sheet = _sheets(tree, len(faces))
    else:
        num_nonorientable = 0
    return _turned(points, faces, edges, sheet, twisted), num_nonorientable


def _sheets(links: _Graph, num_faces: int) -> NDArray[np.int64]:
    """Label the sheets of faces and of their reverses, (2, faces)."""
    left, right, clash = links
    row = np.concatenate([left, left + num_faces])
    column = np.concatenate([right + num_faces * clash, right + num_faces * ~clash])
    return connected_components_numpy(row, column, 2 * num_faces).reshape(2, num_faces)


def _tree_links(links: _Graph, part: NDArray[np.int64], twisted: NDArray[np.bool_]) -> _Graph:
    """Replace the links of twisted parts by a breadth-first tree of each."""
    left, right, clash = links
    num_faces = len(part)
    inside = twisted[left]
    first = np.flatnonzero(twisted)
    first = first[np.unique(part[first], return_index=True)[1]]
    # One root, linked to a face of each part, makes all trees in one call.
    row = np.concatenate([left[inside], np.full(len(first), num_faces)])
    column = np.concatenate([right[inside], first])
    size = num_faces + 1
    graph = coo_array((np.ones(len(row)), (row, column)), shape=(size, size)).tocsr()
    parent, child = breadth_first_tree(graph, num_faces, directed=False).nonzero()
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
    edges: EdgeTable,
    sheet: NDArray[np.int64],
    twisted: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Choose a sheet for each part."""
    # The two sheets of a part hold the same faces, so the smaller label names the part.
    part = np.minimum(sheet[0], sheet[1])
    size = int(sheet.max(initial=-1)) + 1
    turn = sheet[0] != part  # the sheet with the smaller label, as written
    turned = np.bincount(part, turn, size)
    total = np.bincount(part, minlength=size)
    at_boundary = (edges.num_faces_at_edge != 2)[edges.edge].reshape(-1, 3).any(axis=1)
    is_closed = np.bincount(part, at_boundary | twisted, size) == 0
    a, b, c = points[faces].transpose(1, 0, 2)
    # Six times the signed volume of the tetrahedron over each face, seen from the origin.
    volume = np.einsum("ij,ij->i", a, np.cross(b, c)) * np.where(turn, -1.0, 1.0)
    signed, absolute = np.bincount(part, volume, size), np.bincount(part, abs(volume), size)
    reverse = 2 * turned > total
    # A flat closed part has no outside; rounding must not choose for it.
    has_inside = is_closed & (abs(signed) > _LEAST_VOLUME * absolute)
    reverse[has_inside] = signed[has_inside] < 0
    return turn ^ reverse[part]
