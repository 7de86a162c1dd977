"""Splitting of vertices shared by several fans of faces."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.geometry.connected_components import connected_components_numpy


def vertex_fans(
    faces: NDArray[np.int64],  # (faces, 3)
    pairs: NDArray[np.int64],  # (pairs, 2) paired half-edges
) -> NDArray[np.int64]:
    """Return the fan of each corner, (3 faces,): corners of a vertex linked across paired edges."""
    flat = faces.ravel()
    one, other = pairs.T
    # Corner h starts half-edge h; the corner at its end starts the next half-edge of the face.
    one_end, other_end = _following(one), _following(other)
    same_way = flat[one] == flat[other]
    row = np.concatenate([one, one_end])
    column = np.concatenate(
        [np.where(same_way, other, other_end), np.where(same_way, other_end, other)]
    )
    return connected_components_numpy(row, column, faces.size)


def split_vertices(
    faces: NDArray[np.int64],  # (faces, 3)
    pairs: NDArray[np.int64],  # (pairs, 2) paired half-edges
    vertices: NDArray[np.bool_],  # (vertices,) which vertices to split
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Assign a separate vertex to each fan; return the faces and the origins of new vertices."""
    flat = faces.ravel()
    fan = vertex_fans(faces, pairs)
    first = np.unique(fan, return_index=True)[1]  # corner of each fan
    first = first[np.argsort(first, kind="stable")]
    vertex = flat[first]
    # The fan with the first corner keeps its vertex; new vertices are appended.
    later = np.ones(len(first), bool)
    later[np.unique(vertex, return_index=True)[1]] = False
    later &= vertices[vertex]
    number = vertex.copy()
    number[later] = len(vertices) + np.arange(int(later.sum()))
    of_fan = np.empty(len(first), np.int64)
    of_fan[fan[first]] = number
    return of_fan[fan].reshape(-1, 3), vertex[later]


def _following(halfedge: NDArray[np.int64]) -> NDArray[np.int64]:
    return halfedge + np.where(halfedge % 3 == 2, -2, 1)
