"""The non-manifold policy: no directed half-edge twice."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.geometry.ranges import ranges
from equigeo.mesh.repair.edge_table import EdgeTable


def nonmanifold_faces(edges: EdgeTable, forward: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Find the faces that run along a directed half-edge already taken by a kept face.

    The result is that of a scan in file order. It is computed in rounds: a face is kept when it is
    the first undecided one at all its directed half-edges, and then rules out the others there.
    Only half-edges whose first face changed enter the next round, so the work is linear.

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
    Blelloch, Fineman and Shun, "Greedy sequential maximal independent set ...", 2012 (the rounds).

    Examples
    --------
    >>> edges = EdgeTable.from_faces(np.array([[0, 1, 2], [1, 0, 3], [0, 1, 4]]))
    >>> nonmanifold_faces(edges, edges.forward)
    array([False, False,  True])
    """
    directed = 2 * edges.edge + forward
    crowded = np.flatnonzero(np.bincount(directed)[directed] > 1)
    order = crowded[np.argsort(directed[crowded], kind="stable")]
    starts = np.diff(directed[order], prepend=-1) != 0
    place_of = np.full(len(directed), -1)  # crowded directed half-edges, numbered
    place_of[order] = np.cumsum(starts) - 1
    member = order // 3  # faces at place p: member[head[p]:end[p]], in file order
    head = np.flatnonzero(starts)
    end = np.append(head[1:], len(order))
    wanted = np.bincount(member, minlength=len(directed) // 3)
    leading = np.zeros(len(wanted), np.int64)  # places at which the face is the first
    dropped = np.zeros(len(wanted), bool)
    changed = np.arange(len(head))
    while len(changed):
        changed = changed[head[changed] < end[changed]]
        face = member[head[changed]]
        gone = dropped[face]
        passed = changed[gone]
        head[passed] += 1
        np.add.at(leading, face[~gone], 1)
        kept = np.unique(face[~gone & (leading[face] == wanted[face])])
        settled = _places(place_of, kept)
        losers = member[ranges(head[settled] + 1, end[settled] - head[settled] - 1)]
        losers = np.unique(losers[~dropped[losers]])
        dropped[losers] = True
        head[settled] = end[settled]
        affected = _places(place_of, losers)
        affected = affected[head[affected] < end[affected]]
        affected = affected[dropped[member[head[affected]]]]
        changed = np.unique(np.concatenate([passed, affected]))
    return dropped


def _places(place_of: NDArray[np.int64], faces: NDArray[np.int64]) -> NDArray[np.int64]:
    """Crowded places at the half-edges of some faces."""
    places = place_of.reshape(-1, 3)[faces].ravel()
    return places[places >= 0]
