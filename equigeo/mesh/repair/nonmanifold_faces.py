"""Filter for non-manifold faces: each directed half-edge is used once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.geometry.concatenate_ranges import concatenate_ranges
from equigeo.mesh.repair.edge_table import EdgeTable


def nonmanifold_faces(
    edges: EdgeTable,
    forward: NDArray[np.bool_],  # (3 faces,) direction after winding repair
) -> NDArray[np.bool_]:
    """Mark the faces that repeat a directed half-edge of an earlier kept face, (faces,)."""
    # The filter of PD-MeshNet's loader (Milano et al., 2020), in parallel rounds (Blelloch, Fineman
    # and Shun, 2012) of linear total work.
    directed = 2 * edges.edge + forward
    contested = np.flatnonzero(np.bincount(directed)[directed] > 1)
    order = contested[np.argsort(directed[contested], kind="stable")]
    starts = np.diff(directed[order], prepend=-1) != 0
    queue_of = np.full(len(directed), -1)  # -1: no other face runs along this half-edge
    queue_of[order] = np.cumsum(starts) - 1
    queues = _Queues(order // 3, np.flatnonzero(starts), len(order), queue_of.reshape(-1, 3))
    return queues.serve()


class _Queues:
    """Undecided faces at each contested directed half-edge, in file order."""

    def __init__(
        self,
        member: NDArray[np.int64],
        head: NDArray[np.int64],
        size: int,
        queues_of_face: NDArray[np.int64],
    ) -> None:
        # Queue q is `member[head[q]:end[q]]`; a face is in up to three queues.
        self.member, self.head, self.end = member, head, np.append(head[1:], size)
        self.queues_of_face = queues_of_face
        self.num_queues = np.bincount(member, minlength=len(queues_of_face))
        self.num_led = np.zeros(len(queues_of_face), np.int64)  # queues that a face heads
        self.dropped = np.zeros(len(queues_of_face), bool)

    def serve(self) -> NDArray[np.bool_]:
        """Decide all faces, (faces,), in rounds over the queues with a new head."""
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
        """Remove the queues of kept faces, and drop and return the other faces in them."""
        settled = self._queues(kept)
        behind = self.head[settled] + 1
        losers = self.member[concatenate_ranges(behind, self.end[settled] - behind)]
        losers = np.unique(losers[~self.dropped[losers]])
        self.dropped[losers] = True
        self.head[settled] = self.end[settled]
        return losers

    def _queues(self, faces: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the queues that contain the given faces."""
        queues = self.queues_of_face[faces].ravel()
        return queues[queues >= 0]
