"""The edges of a set of triangles, sound or not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equigeo.graphs.brief_repr import brief_repr


@dataclass(frozen=True, eq=False, repr=False)
class EdgeTable:
    """Half-edges grouped by the undirected edge they run along.

    Half-edge ``3 f + k`` runs from corner ``k`` of face ``f`` to its next corner. Unlike the
    adjacency of a clean mesh, an edge here may have any number of faces, wound in any way.

    Parameters
    ----------
    edge : ndarray, (3 faces,), int64
        Undirected edge of each half-edge.
    forward : ndarray, (3 faces,), bool
        Whether the half-edge runs from the smaller to the larger vertex index.
    order : ndarray, (3 faces,), int64
        Half-edges sorted by edge, and by face within an edge.
    ptr : ndarray, (edges + 1,), int64
        Half-edges of edge ``e`` are ``order[ptr[e]:ptr[e + 1]]``.

    Examples
    --------
    >>> edges = EdgeTable.from_faces(np.array([[0, 1, 2], [2, 1, 3]]))
    >>> edges.num_faces_at_edge.tolist(), edges.twins().tolist()
    ([1, 1, 2, 1, 1], [[1, 3]])
    """

    edge: NDArray[np.int64]
    forward: NDArray[np.bool_]
    order: NDArray[np.int64]
    ptr: NDArray[np.int64]

    __repr__ = brief_repr

    @classmethod
    def from_faces(cls, faces: NDArray[np.int64]) -> EdgeTable:
        """Sort the half-edges of triangles once.

        Parameters
        ----------
        faces : ndarray, (faces, 3), int64
            Vertex indices, three different ones in each row and fewer than 3e9 vertices in all.

        Returns
        -------
        EdgeTable
            Their edges.
        """
        tail, head = faces.ravel(), np.roll(faces, -1, axis=1).ravel()
        low, high = np.minimum(tail, head), np.maximum(tail, head)
        # Fits into 64 bits up to 3.03e9 vertices, the root of 2**63.
        key = low * (int(high.max(initial=0)) + 1) + high
        order = np.argsort(key, kind="stable")
        starts = np.append(True, np.diff(key[order]) != 0)[: len(key)]
        edge = np.empty(len(key), np.int64)
        edge[order] = np.cumsum(starts) - 1
        return cls(edge, tail < head, order, np.append(np.flatnonzero(starts), len(key)))

    @property
    def num_faces_at_edge(self) -> NDArray[np.int64]:
        """Faces at each edge, (edges,)."""
        return np.diff(self.ptr)

    def twins(self) -> NDArray[np.int64]:
        """Pairs of half-edges along edges of exactly two faces, (pairs, 2), the earlier first."""
        first = self.ptr[:-1][self.num_faces_at_edge == 2]
        return np.stack([self.order[first], self.order[first + 1]], axis=1)
