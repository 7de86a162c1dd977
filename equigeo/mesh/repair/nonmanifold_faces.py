"""The non-manifold policy: no directed half-edge twice."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.repair.edge_table import EdgeTable


def nonmanifold_faces(edges: EdgeTable, forward: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Find the faces that run along a directed half-edge already taken by a kept face.

    The result is that of a scan in file order. It is computed in rounds: a face is kept when it is
    the first of the undecided faces at all its directed half-edges, and then rules out the others
    there. Two or three rounds settle ordinary meshes.

    Parameters
    ----------
    edges : EdgeTable
        Edges of the mesh.
    forward : ndarray, (3 faces,), bool
        Direction of each half-edge, after the winding was repaired.

    Returns
    -------
    ndarray, (faces,), bool
        True for faces to drop. What remains has at most two faces at an edge, wound alike.

    References
    ----------
    Milano et al., "Primal-Dual Mesh Convolutional Neural Networks", 2020 (filter of the loader).
    Blelloch, Fineman and Shun, "Greedy sequential maximal independent set and matching are parallel
    on average", 2012.

    Examples
    --------
    >>> edges = EdgeTable.from_faces(np.array([[0, 1, 2], [1, 0, 3], [0, 1, 4]]))
    >>> nonmanifold_faces(edges, edges.forward)
    array([False, False,  True])
    """
    num_faces = len(edges.edge) // 3
    directed = 2 * edges.edge + forward
    crowded = np.bincount(directed, minlength=2 * len(edges.ptr))[directed] > 1
    halfedge = np.flatnonzero(crowded)
    dropped = np.zeros(num_faces, bool)
    taken = np.zeros(2 * len(edges.ptr), bool)
    while len(halfedge):
        face, place = halfedge // 3, directed[halfedge]
        is_first = np.zeros(len(halfedge), bool)
        is_first[np.unique(place, return_index=True)[1]] = True
        kept = np.ones(num_faces, bool)
        kept[face[~is_first]] = False
        taken[place[kept[face]]] = True
        dropped[face[taken[place] & ~kept[face]]] = True
        halfedge = halfedge[~kept[face] & ~dropped[face]]
    return dropped
