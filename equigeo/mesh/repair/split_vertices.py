"""Vertices of their own for faces that meet at a point alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.geometry.connected_components import connected_components_numpy


def vertex_fans(faces: NDArray[np.int64], pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the fans of faces around vertices: corners of a vertex, linked across common edges.

    Parameters
    ----------
    faces : ndarray, (faces, 3), int64
        Vertex indices, wound in any way.
    pairs : ndarray, (pairs, 2), int64
        Half-edges that meet.

    Returns
    -------
    ndarray, (3 faces,), int64
        Fan of each corner.

    Examples
    --------
    >>> two = np.array([[0, 1, 2], [1, 0, 3]])
    >>> vertex_fans(two, np.array([[0, 3]])).tolist()
    [0, 1, 2, 1, 0, 3]
    """
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
    faces: NDArray[np.int64], pairs: NDArray[np.int64], vertices: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give each fan of faces at some vertices a vertex of its own.

    Parameters
    ----------
    faces : ndarray, (faces, 3), int64
        Vertex indices.
    pairs : ndarray, (pairs, 2), int64
        Half-edges that meet; at the others, faces end.
    vertices : ndarray, (vertices,), bool
        Which vertices to split.

    Returns
    -------
    faces : ndarray, (faces, 3), int64
        The fan with the first corner keeps its vertex; the others have new ones, at the end.
    source : ndarray, (new vertices,), int64
        Which vertex each new one is a copy of.

    Examples
    --------
    >>> bowtie = np.array([[0, 1, 2], [0, 3, 4]])
    >>> faces, source = split_vertices(bowtie, np.empty((0, 2), np.int64), np.ones(5, bool))
    >>> faces.tolist(), source.tolist()
    ([[0, 1, 2], [5, 3, 4]], [0])
    """
    flat = faces.ravel()
    fan = vertex_fans(faces, pairs)
    first = np.unique(fan, return_index=True)[1]  # corner of each fan
    first = first[np.argsort(first, kind="stable")]
    vertex = flat[first]
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
