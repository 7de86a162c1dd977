"""Edges of a set of triangles, which may be non-manifold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equigeo.graphs.brief_repr import brief_repr


@dataclass(frozen=True, eq=False, repr=False)
class EdgeTable:
    """Half-edges grouped by undirected edge; an edge may have any number of faces."""

    edge: NDArray[np.int64]  # (3 faces,) undirected edge of half-edge 3 f + k
    forward: NDArray[np.bool_]  # (3 faces,) runs from lower to higher vertex
    order: NDArray[np.int64]  # (3 faces,) sorted by edge, then face
    ptr: NDArray[np.int64]  # (edges + 1,) offsets of edges in `order`

    __repr__ = brief_repr

    @classmethod
    def from_faces(
        cls,
        faces: NDArray[np.int64],  # (faces, 3), distinct vertices per row
    ) -> EdgeTable:
        """Sort the half-edges of triangles."""
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
        """Number of faces at each edge, (edges,)."""
        return np.diff(self.ptr)

    def twins(self) -> NDArray[np.int64]:
        """Return pairs of half-edges at edges of two faces, (pairs, 2), the earlier first."""
        first = self.ptr[:-1][self.num_faces_at_edge == 2]
        return np.stack([self.order[first], self.order[first + 1]], axis=1)
