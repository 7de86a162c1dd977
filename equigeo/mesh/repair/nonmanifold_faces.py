"""The non-manifold policy: no directed half-edge twice."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.geometry.concatenate_ranges import concatenate_ranges
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
    contested = np.flatnonzero(np.bincount(directed)[directed] > 1)
    order = contested[np.argsort(directed[contested], kind="stable")]
    starts = np.diff(directed[order], prepend=-1) != 0
    queue_of = np.full(len(directed), -1)  # -1: no other face runs along this half-edge
    queue_of[order] = np.cumsum(starts) - 1
    queues = _Queues(order // 3, np.flatnonzero(starts), len(order), queue_of.reshape(-1, 3))
    return queues.serve()


class _Queues:
    """Undecided faces at each contested directed half-edge, in file order.

    Queue ``q`` is ``member[head[q]:end[q]]``; a face stands in up to three queues.
    """

    def __init__(
        self,
        member: NDArray[np.int64],
        head: NDArray[np.int64],
        size: int,
        queues_of_face: NDArray[np.int64],
    ) -> None:
        self.member, self.head, self.end = member, head, np.append(head[1:], size)
        self.queues_of_face = queues_of_face
        self.num_queues = np.bincount(member, minlength=len(queues_of_face))
        self.num_led = np.zeros(len(queues_of_face), np.int64)  # queues that a face heads
        self.dropped = np.zeros(len(queues_of_face), bool)

    def serve(self) -> NDArray[np.bool_]:
        """Decide all faces, (faces,), in rounds over the queues whose head changed."""
        changed = np.arange(len(self.head))
        while len(changed):
            changed = changed[self.head[changed] < self.end[changed]]
            first = self.member[self.head[changed]]
            gone = self.dropped[first]
            passed = changed[gone]
            self.head[passed] += 1
            np.add.at(self.num_led, first[~gone], 1)
            # First in all of its queues: nothing earlier in the file can rule this face out.
            kept = np.unique(first[~gone & (self.num_led[first] == self.num_queues[first])])
            losers = self._settle(kept)
            affected = self._queues(losers)
            affected = affected[self.head[affected] < self.end[affected]]
            affected = affected[self.dropped[self.member[self.head[affected]]]]
            changed = np.unique(np.concatenate([passed, affected]))
        return self.dropped

    def _settle(self, kept: NDArray[np.int64]) -> NDArray[np.int64]:
        """Empty the queues of faces that are kept; drop and return all who stood behind them."""
        settled = self._queues(kept)
        behind = self.head[settled] + 1
        losers = self.member[concatenate_ranges(behind, self.end[settled] - behind)]
        losers = np.unique(losers[~self.dropped[losers]])
        self.dropped[losers] = True
        self.head[settled] = self.end[settled]
        return losers

    def _queues(self, faces: NDArray[np.int64]) -> NDArray[np.int64]:
        """Queues in which some faces stand."""
        queues = self.queues_of_face[faces].ravel()
        return queues[queues >= 0]
